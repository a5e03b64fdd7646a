//! The agent as a whole: journal, engine and listeners.
//!
//! Owns: the order of start and shutdown, and the socket file. Must never: serve before the journal
//! is open and interrupted operations are settled, or leave a task running.

use std::{
    io, net::SocketAddr, os::unix::fs::PermissionsExt, path::Path, sync::Arc, time::Duration,
};

use futures::Stream;
use rackhand_agent_core::ledger::Retention;
use rackhand_proto::{FILE_DESCRIPTOR_SET, v1::power_server::PowerServer};
use rackhand_transport::{
    ServerTls, TlsError, TlsFiles, TraceContext,
    tls::{AcceptLimits, CONNECTION_AGE, RELOAD_INTERVAL, RemoteAddr, incoming},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    task::JoinSet,
};
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Server, server::TcpIncoming};
use tonic_health::{
    pb::health_server::HealthServer,
    server::{HealthReporter, HealthService},
};
use tower::layer::util::{Identity, Stack};
use tracing::{Span, error, error_span, info, warn};

use crate::{
    admin, blocking,
    call_limits::{CALLS_PER_IDENTITY, CallLimits},
    config::{Config, Remote},
    driver::Driver,
    engine::{Changes, Engine},
    grpc::PowerService,
    journal::{IfDamaged, Journal, JournalError, wall_clock},
    metrics::Metrics,
    rejections::Refused,
    reload::{ReloadError, Reloader},
};

/// Reason why the agent does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The journal cannot be opened.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// An error of a directory, a socket or a port.
    #[error("{what}: {source}")]
    Io {
        /// Step of the start that failed.
        what: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The reflection service cannot be created.
    #[error("gRPC reflection: {0}")]
    Reflection(String),
}

fn failed(what: impl Into<String>) -> impl FnOnce(io::Error) -> StartError {
    let what = what.into();
    move |source| StartError::Io { what, source }
}

/// A running agent. Dropping it stops everything at once, like a crash.
pub struct Agent {
    engine: Engine,
    health: HealthReporter,
    servers: JoinSet<()>,
    stop: CancellationToken,
    addresses: Addresses,
    reloader: Arc<Reloader>,
}

/// Addresses of the listeners.
#[derive(Debug, Clone, Copy, Default)]
struct Addresses {
    remote: Option<SocketAddr>,
    admin: Option<SocketAddr>,
}

impl Agent {
    /// Starts the agent. When this returns, all listeners accept connections. A damaged journal is
    /// renamed and replaced by a new one, which the agent reports in its log, its metrics and to
    /// the controller.
    pub async fn start(config: Config, driver: Arc<dyn Driver>) -> Result<Self, StartError> {
        Self::start_with(config, driver, IfDamaged::Replace).await
    }

    /// Starts the agent for one command, on a copy of the journal. A damaged journal is an error,
    /// because the held hosts are unknown.
    pub async fn start_on_copy(
        config: Config,
        driver: Arc<dyn Driver>,
    ) -> Result<Self, StartError> {
        Self::start_with(config, driver, IfDamaged::Refuse).await
    }

    /// Starts with connections of the caller instead of sockets, for simulations: only mTLS is
    /// served, and changes of files are not detected.
    pub async fn start_over<S, IO>(
        config: Config,
        driver: Arc<dyn Driver>,
        tls: ServerTls,
        connections: S,
    ) -> Result<Self, StartError>
    where
        S: Stream<Item = io::Result<IO>> + Send + 'static,
        IO: AsyncRead + AsyncWrite + RemoteAddr + Unpin + Send + 'static,
    {
        let tls = Arc::new(tls);
        let (mut agent, services) =
            Self::begin(config, driver, Some(tls.clone()), IfDamaged::Replace).await?;
        agent.serve_remote(services, connections, tls);
        Ok(agent)
    }

    async fn start_with(
        config: Config,
        driver: Arc<dyn Driver>,
        if_damaged: IfDamaged,
    ) -> Result<Self, StartError> {
        let (remote, tls) = match &config.remote {
            Some(remote) => {
                let (listener, tls) = bind(remote, &config.rack).await?;
                (Some(listener), Some(Arc::new(tls)))
            }
            None => (None, None),
        };
        let admin = match config.admin {
            Some(address) => Some(listen(address).await?),
            None => None,
        };
        let (socket, rack) = (config.socket.clone(), config.rack.clone());
        let (mut agent, services) = Self::begin(config, driver, tls.clone(), if_damaged).await?;
        agent.servers.spawn(agent.reloader.clone().watch());
        agent.serve_local(&services, &socket).await?;
        if let Some(listener) = admin {
            let bound = listener.local_addr().map_err(failed("admin listener"))?;
            let (state, stop) = (agent.reloader.clone(), agent.stop.clone());
            agent.servers.spawn(rackhand_transport::admin::serve(
                listener,
                admin::all(state),
                stop,
            ));
            info!(address = %bound, "serving health and metrics");
            agent.addresses.admin = Some(bound);
        }
        if let (Some(listener), Some(tls)) = (remote, tls) {
            let bound = listener.local_addr().map_err(failed("listener"))?;
            agent.servers.spawn(tls.watch(RELOAD_INTERVAL));
            let tcp = TcpIncoming::from(listener).with_nodelay(Some(true));
            agent.serve_remote(services, tcp, tls);
            info!(address = %bound, rack, "serving mTLS");
            agent.addresses.remote = Some(bound);
        }
        Ok(agent)
    }

    /// Opens the journal and settles the operations that were running; nothing is served yet.
    async fn begin(
        config: Config,
        driver: Arc<dyn Driver>,
        tls: Option<Arc<ServerTls>>,
        if_damaged: IfDamaged,
    ) -> Result<(Self, Services), StartError> {
        let (journal, interrupted) = open_journal(&config.state, if_damaged).await?;
        let metrics = Arc::new(Metrics::new());
        let (path, sources) = (config.path.clone(), config.sources.clone());
        let engine = Engine::start(config, journal, driver, metrics.clone());
        // On a copy, nothing is continued: the agent that owns the journal does that.
        if if_damaged == IfDamaged::Replace {
            engine.recover(interrupted);
        }
        let health = HealthReporter::new();
        health.set_serving::<PowerServer<PowerService>>().await;
        let services = Services {
            power: PowerServer::new(PowerService::new(&engine)),
            health: HealthServer::new(HealthService::from_health_reporter(health.clone())),
            metrics: metrics.clone(),
            limits: CallLimits::new(CALLS_PER_IDENTITY),
        };
        let reloader = Reloader::new(engine.clone(), tls, metrics, path, sources);
        let agent = Self {
            engine,
            health,
            servers: JoinSet::new(),
            stop: CancellationToken::new(),
            addresses: Addresses::default(),
            reloader: Arc::new(reloader),
        };
        Ok((agent, services))
    }

    async fn serve_local(&mut self, services: &Services, socket: &Path) -> Result<(), StartError> {
        let local = listen_local(socket).await?;
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .build_v1()
            .map_err(|error| StartError::Reflection(error.to_string()))?;
        let router = services
            .server()
            .add_service(services.health.clone())
            .add_service(reflection)
            .add_service(services.power.clone());
        let stopped = self.stop.clone().cancelled_owned();
        self.servers.spawn(async move {
            let result = router
                .serve_with_incoming_shutdown(UnixListenerStream::new(local), stopped)
                .await;
            report("local socket", result);
        });
        info!(socket = %socket.display(), "serving the local socket");
        Ok(())
    }

    fn serve_remote<S, IO>(&mut self, services: Services, connections: S, tls: Arc<ServerTls>)
    where
        S: Stream<Item = io::Result<IO>> + Send + 'static,
        IO: AsyncRead + AsyncWrite + RemoteAddr + Unpin + Send + 'static,
    {
        let connections = incoming(connections, tls, AcceptLimits::default());
        let router = services
            .server()
            .max_connection_age(CONNECTION_AGE)
            .add_service(services.health)
            .add_service(services.power);
        let stopped = self.stop.clone().cancelled_owned();
        self.servers.spawn(async move {
            let result = router
                .serve_with_incoming_shutdown(connections, stopped)
                .await;
            report("remote listener", result);
        });
    }

    /// Serves `/livez` and `/readyz`, without metrics, for the probes of a kubelet; returns the bound address.
    pub async fn serve_probes(&mut self, address: SocketAddr) -> Result<SocketAddr, StartError> {
        let listener = listen(address).await?;
        let bound = listener.local_addr().map_err(failed("probe listener"))?;
        let app = admin::probes(self.reloader.clone());
        self.servers.spawn(rackhand_transport::admin::serve(
            listener,
            app,
            self.stop.clone(),
        ));
        info!(address = %bound, "serving probes");
        Ok(bound)
    }

    /// Address of the remote listener.
    pub fn remote_addr(&self) -> Option<SocketAddr> {
        self.addresses.remote
    }

    /// Address of the health and metrics listener.
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.addresses.admin
    }

    /// TLS configuration of the remote listener.
    pub fn tls(&self) -> Option<&ServerTls> {
        self.reloader.tls()
    }

    /// Reloads the configuration, the inventory and the certificate, completely or not at all.
    /// Running operations continue.
    ///
    /// # Errors
    ///
    /// All errors of the files; the previous configuration stays in force.
    pub async fn reload(&self) -> Result<Changes, ReloadError> {
        self.reloader.reload().await
    }

    /// The hosts that a remediation or an operator holds off, with the owners, as the journal records them.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub async fn held_hosts(&self) -> Result<Vec<(String, String)>, JournalError> {
        let holds = self.engine.holds.in_journal().await?.into_iter();
        Ok(holds.map(|(_, hold)| (hold.host, hold.owner)).collect())
    }

    /// Returns when a part of the agent has ended unexpectedly, or when the journal is lost and
    /// only a new process can continue.
    pub async fn failed(&mut self) {
        let lost = self.engine.journal_status.lost();
        tokio::select! {
            () = lost.cancelled() => {}
            ended = self.servers.join_next() => if ended.is_none() {
                std::future::pending::<()>().await;
            },
        }
    }

    /// Rejects new operations, waits for running ones for the grace period, ends the rest as
    /// interrupted, and closes everything.
    pub async fn shutdown(mut self) {
        self.health
            .set_not_serving::<PowerServer<PowerService>>()
            .await;
        let grace = self.engine.settings.load().times.shutdown_grace;
        self.engine.shutdown(grace).await;
        self.stop.cancel();
        // Connections that stay open do not delay the shutdown.
        let ended = async { while self.servers.join_next().await.is_some() {} };
        tokio::time::timeout(Duration::from_secs(1), ended)
            .await
            .ok();
        self.servers.shutdown().await;
    }

    /// Stops everything at once, like a crash: no outcome is written.
    pub async fn abort(mut self) {
        self.engine.abort().await;
        self.servers.shutdown().await;
    }
}

/// The services of every listener.
struct Services {
    power: PowerServer<PowerService>,
    health: HealthServer<HealthService>,
    metrics: Arc<Metrics>,
    limits: CallLimits,
}

impl Services {
    fn server(&self) -> Server<Stack<CallLimits, Stack<Refused, Identity>>> {
        Server::builder()
            .trace_fn(trace_span)
            // Longer than the longest reading; streams are not limited by it.
            .timeout(Duration::from_secs(75))
            // An operator may read all hosts of a rack at once, including dead ones. One connection
            // may use the whole limit of its caller.
            .max_concurrent_streams(u32::try_from(CALLS_PER_IDENTITY).unwrap_or(u32::MAX))
            .http2_keepalive_interval(Some(Duration::from_secs(15)))
            .http2_keepalive_timeout(Some(Duration::from_secs(10)))
            .layer(Refused(self.metrics.clone()))
            .layer(self.limits.clone())
    }
}

/// The tracing span of a call, shared with the caller's trace.
fn trace_span(request: &http::Request<()>) -> Span {
    let Some(trace) = TraceContext::of_headers(request.headers()) else {
        return Span::none();
    };
    let span = error_span!("call", trace_id = trace.trace_id());
    let method = request.uri().path().trim_start_matches('/').to_owned();
    let attributes = [("rpc.system", "grpc".to_owned()), ("rpc.method", method)];
    trace.adopt(&span, attributes);
    span
}

fn report(what: &str, result: Result<(), tonic::transport::Error>) {
    if let Err(error) = result {
        warn!(%error, "{what} has ended");
    }
}

async fn bind(remote: &Remote, rack: &str) -> Result<(TcpListener, ServerTls), StartError> {
    let (files, rack) = (TlsFiles::in_dir(&remote.tls), rack.to_owned());
    let tls = blocking::run(move || ServerTls::load(files, &rack))
        .await
        .map_err(|error| failed("certificate")(io::Error::other(error)))??;
    if let Err(error) = tls.check_validity() {
        error!(
            "{error}; until then no remote caller trusts this agent, and only the local socket can be used"
        );
    }
    Ok((listen(remote.listen).await?, tls))
}

async fn listen(address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address)
        .await
        .map_err(failed(format!("cannot listen on {address}")))
}

async fn open_journal(
    state: &Path,
    if_damaged: IfDamaged,
) -> Result<(Journal, Vec<String>), StartError> {
    let state = state.to_owned();
    let opened = blocking::run(move || {
        std::fs::create_dir_all(&state).map_err(failed(format!(
            "cannot create state directory {}",
            state.display()
        )))?;
        Ok(Journal::open(
            &state.join("journal.redb"),
            if_damaged,
            Retention::default(),
            wall_clock(),
        )?)
    });
    opened
        .await
        .map_err(|error| failed("journal")(io::Error::other(error)))?
}

/// Binds the socket under a temporary name and renames it: it never exists with a permissive mode,
/// and a file left behind by a crash is replaced.
async fn listen_local(path: &Path) -> Result<UnixListener, StartError> {
    let shown = path.display().to_string();
    if tokio::net::UnixStream::connect(path).await.is_ok() {
        let source = io::Error::from(io::ErrorKind::AddrInUse);
        return Err(failed(format!("socket {shown} is served by another agent"))(source));
    }
    let dir = path.parent().unwrap_or(Path::new("."));
    let cannot = || failed(format!("cannot create socket {shown}"));
    std::fs::create_dir_all(dir).map_err(cannot())?;
    let private = dir.join(format!(".rackhand-{}", std::process::id()));
    std::fs::create_dir_all(&private).map_err(cannot())?;
    std::fs::set_permissions(&private, std::fs::Permissions::from_mode(0o700)).map_err(cannot())?;
    let first = private.join("s");
    std::fs::remove_file(&first).ok();
    let listener = UnixListener::bind(&first).map_err(cannot())?;
    std::fs::set_permissions(&first, std::fs::Permissions::from_mode(0o660)).map_err(cannot())?;
    std::fs::rename(&first, path).map_err(cannot())?;
    std::fs::remove_dir(&private).ok();
    Ok(listener)
}
