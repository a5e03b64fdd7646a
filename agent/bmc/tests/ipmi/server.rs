//! A BMC on its own UDP port.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use rackhand_bmc::{
    Bmc as Client,
    ipmi::{IpmiConfig, connect},
};
use tokio::{net::UdpSocket, task::AbortHandle};

use super::bmc::Bmc;

pub struct Server {
    pub port: u16,
    state: Arc<Mutex<State>>,
    task: AbortHandle,
}

pub struct State {
    pub bmc: Bmc,
    /// Number of received datagrams.
    pub packets: usize,
    /// Whether the BMC sends no responses.
    pub is_mute: bool,
    /// Delay of each response.
    pub slow: Duration,
}

impl Server {
    pub async fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("socket");
        let port = socket.local_addr().expect("address").port();
        let state = Arc::new(Mutex::new(State {
            bmc: Bmc::new(),
            packets: 0,
            is_mute: false,
            slow: Duration::ZERO,
        }));
        let task = tokio::spawn(serve(socket, Arc::clone(&state))).abort_handle();
        Self { port, state, task }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("state")
    }

    pub fn config(&self) -> IpmiConfig {
        let address = format!("ipmi://127.0.0.1:{}", self.port);
        IpmiConfig::new(address.parse().expect("address"), "admin", "secret".into())
    }

    pub fn client(&self) -> Box<dyn Client> {
        connect(self.config()).expect("configuration")
    }

    /// Waits until the BMC holds no session, neither open nor half open.
    pub async fn is_left(&self) {
        for _ in 0..200 {
            if self.state().bmc.sessions() == (0, 0) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("sessions are left: {:?}", self.state().bmc.sessions());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(socket: UdpSocket, state: Arc<Mutex<State>>) {
    let mut buffer = [0; 1024];
    loop {
        // A client that has closed its socket does not stop the server.
        let Ok((length, peer)) = socket.recv_from(&mut buffer).await else {
            continue;
        };
        let (answer, slow) = {
            let mut state = state.lock().expect("state");
            state.packets += 1;
            let is_mute = state.is_mute;
            let answer = state.bmc.receive(&buffer[..length]);
            (answer.filter(|_| !is_mute), state.slow)
        };
        tokio::time::sleep(slow).await;
        if let Some(answer) = answer {
            socket.send_to(&answer, peer).await.ok();
        }
    }
}
