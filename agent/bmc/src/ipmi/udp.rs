//! The UDP socket to one BMC.
//!
//! Owns: host name, address family, and one connected UDP socket, so that the kernel accepts
//! datagrams of this BMC only and reports ICMP errors. Must never: interpret a datagram.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use tokio::net::{UdpSocket, lookup_host};

/// Opens a socket to one of these addresses, or else to an address of the name, which is resolved
/// for each socket. If there are several addresses, the first one with a route is used.
pub(super) async fn open(host: &str, resolved: &[IpAddr], port: u16) -> io::Result<UdpSocket> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let peers: Vec<SocketAddr> = if resolved.is_empty() {
        lookup_host((host, port)).await?.collect()
    } else {
        let peers = resolved.iter().map(|ip| SocketAddr::new(*ip, port));
        peers.collect()
    };
    for peer in peers {
        match connected(peer).await {
            Ok(socket) => return Ok(socket),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

async fn connected(peer: SocketAddr) -> io::Result<UdpSocket> {
    let any = match peer {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(peer).await?;
    Ok(socket)
}
