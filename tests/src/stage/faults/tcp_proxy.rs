//! A TCP proxy with faults, between the controllers and the API server or an agent.
//!
//! A cut proxy resets all connections and every new one, like a broken load balancer. A silent proxy accepts
//! connections and forwards nothing, like a network that drops packets; data that was sent meanwhile arrives
//! after the mend, also from processes that have ended since.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

/// What a proxy forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Carries {
    Everything,
    /// Everything, after this delay.
    Late(Duration),
    /// Nothing: connections are reset.
    Resets,
    /// Nothing: connections stay open.
    Nothing,
}

/// The proxy. Dropping it stops it.
pub struct TcpProxy {
    carries: watch::Sender<Carries>,
    address: String,
    _task: JoinSet<()>,
}

impl TcpProxy {
    /// Starts a proxy to an address.
    ///
    /// # Errors
    /// There is no free port.
    pub async fn to(there: &str) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?.to_string();
        let (carries, _) = watch::channel(Carries::Everything);
        let mut task = JoinSet::new();
        task.spawn(serve(listener, there.into(), carries.clone()));
        Ok(Self {
            carries,
            address,
            _task: task,
        })
    }

    /// Listening address, as host:port.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Resets all connections and every new one.
    pub fn cut(&self) {
        self.carries.send_replace(Carries::Resets);
    }

    /// Keeps connections open and forwards nothing.
    pub fn silence(&self) {
        self.carries.send_replace(Carries::Nothing);
    }

    /// Forwards everything after this delay.
    pub fn slow(&self, late: Duration) {
        self.carries.send_replace(Carries::Late(late));
    }

    /// Forwards everything again.
    pub fn mend(&self) {
        self.carries.send_replace(Carries::Everything);
    }
}

async fn serve(listener: TcpListener, there: Arc<str>, carries: watch::Sender<Carries>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((near, _)) = listener.accept().await else {
            return;
        };
        while connections.try_join_next().is_some() {}
        connections.spawn(connection(near, there.clone(), carries.subscribe()));
    }
}

async fn connection(mut near: TcpStream, there: Arc<str>, carries: watch::Receiver<Carries>) {
    let mut reset = carries.clone();
    let carried = async {
        spoken(&mut carries.clone()).await;
        let mut far = TcpStream::connect(&*there).await?;
        let ((near_in, near_out), (far_in, far_out)) = (near.split(), far.split());
        tokio::try_join!(
            carry(near_in, far_out, carries.clone()),
            carry(far_in, near_out, carries),
        )
    };
    let cut = tokio::select! {
        _ = reset.wait_for(|carries| *carries == Carries::Resets) => true,
        _ = carried => false,
    };
    if cut {
        // Without this, the close would look like a regular end and not like a failure.
        near.set_zero_linger().ok();
    }
}

async fn spoken(carries: &mut watch::Receiver<Carries>) {
    // An error means that the proxy was dropped, and this task ends with it.
    carries.wait_for(|now| *now != Carries::Nothing).await.ok();
}

async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut carries: watch::Receiver<Carries>,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = from.read(&mut buffer).await?;
        spoken(&mut carries).await;
        let now = *carries.borrow();
        if let Carries::Late(late) = now {
            tokio::time::sleep(late).await;
        }
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(buffer.get(..read).unwrap_or_default()).await?;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn echo() -> String {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                tokio::spawn(async move {
                    let (mut input, mut output) = stream.split();
                    tokio::io::copy(&mut input, &mut output).await.ok();
                });
            }
        });
        address
    }

    async fn answers(stream: &mut TcpStream) -> std::io::Result<u8> {
        stream.write_all(b"a").await?;
        stream.read_u8().await
    }

    #[tokio::test]
    async fn cut_proxy_resets_connections_and_silent_proxy_buffers_until_mended() {
        let line = TcpProxy::to(&echo().await).await.unwrap();
        let open = || TcpStream::connect(line.address().to_owned());
        let mut old = open().await.unwrap();
        assert_eq!(answers(&mut old).await.unwrap(), b'a');
        line.cut();
        assert!(old.read_u8().await.is_err());
        let mut new = open().await.unwrap();
        assert!(answers(&mut new).await.is_err());
        line.mend();
        let mut old = open().await.unwrap();
        assert_eq!(answers(&mut old).await.unwrap(), b'a');
        line.silence();
        let mut new = open().await.unwrap();
        for stream in [&mut old, &mut new] {
            stream.write_all(b"b").await.unwrap();
            let silent = tokio::time::timeout(Duration::from_millis(100), stream.read_u8());
            assert!(silent.await.is_err());
        }
        line.mend();
        for stream in [&mut old, &mut new] {
            assert_eq!(stream.read_u8().await.unwrap(), b'b');
        }
    }
}
