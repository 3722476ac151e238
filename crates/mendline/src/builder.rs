//! Builds an engine with its driver, and starts it.
//!
//! A program names its servers, gives what it has of the rest, and starts the engine with its clients:
//!
//! ```no_run
//! # use mendline::decisions::UpstreamConfig;
//! # use mendline::transport::Endpoint;
//! # use mendline::transport::child::ChildCommand;
//! # use mendline::frontend::channel;
//! # use mendline::Builder;
//! # use mendline_wire::Limits;
//! # async fn example() -> std::io::Result<()> {
//! let limits = Limits::default();
//! let mut builder = Builder::new(limits.clone());
//! let command = ChildCommand::new("notes-server", []);
//! let notes = builder.server(UpstreamConfig::child("notes", "notes-server"), Endpoint::Child(command));
//! let (frontend, mut client) = channel(&limits);
//! let mut running = builder.start([(notes.id, frontend)]);
//! # client.send("{}").await.ok();
//! drop(client);
//! running.ended().await?;
//! # Ok(())
//! # }
//! ```
//!
//! This is the interface of the library, and every command of `mendline` that reaches a server uses it. The builder
//! touches nothing of the process around it: signal handlers, log and guard belong to the program, which passes them on.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};

use mendline_core::port::Ending;
use mendline_core::{ClientId, Config, Engine, Input, Lifetime, Moment, UpstreamConfig, UpstreamId};
use mendline_wire::Limits;
use tokio::task::JoinHandle;

use crate::catalogue::CatalogueFile;
use crate::control::server::{InputSender, OpenError, SocketGuard};
use crate::control::{self, SharedStatus, Socket, StatusObserver, StatusStore};
use crate::credential::{CredentialSource, Keeper, KeeperHandle};
use crate::driver::{AddedServer, CacheStore, Client, Driver, External, Observer};
use crate::frontend::{Frontend, MultiFrontend};
use crate::input_queue::{ExternalInput, InputQueue};
use crate::metrics;
use crate::observe::redact::Redactor;
use crate::transport::guard::Guard;
use crate::transport::next::Next;
use crate::transport::servers::{Endpoint, NewEndpoints, Servers};

/// An engine that is not started yet.
pub struct Builder<O = ()> {
    limits: Limits,
    redactor: Redactor,
    servers: Vec<Server>,
    observer: O,
    guard: Option<StartGuard>,
    control_socket: Option<ControlSocket>,
    metrics: Option<metrics::endpoint::Endpoint>,
    multi: Option<Box<dyn MultiFrontend>>,
    inputs: Arc<InputQueue>,
}

type StartGuard = Box<dyn FnOnce() -> io::Result<Guard>>;

struct Server {
    config: UpstreamConfig,
    endpoint: Endpoint,
    next: Next<Endpoint>,
    list_cache: Option<CatalogueFile>,
    source: Option<Box<dyn CredentialSource>>,
    next_source: NextSource,
}

/// A server that is added to an engine that runs, by [`InputQueue::push_server`].
pub struct NewServer {
    handle: ServerHandle,
    server: Server,
}

impl NewServer {
    /// Creates a server with a number that no upstream of the engine has.
    pub fn new(id: UpstreamId, config: UpstreamConfig, endpoint: Endpoint) -> NewServer {
        let (next, next_source) = (Next::default(), NextSource::default());
        let handle = ServerHandle { id, next: next.clone(), next_source: next_source.clone() };
        NewServer { handle, server: Server { config, endpoint, next, list_cache: None, source: None, next_source } }
    }

    /// Sets the source of its credential.
    pub fn credential(&mut self, source: Box<dyn CredentialSource>) {
        self.server.source = Some(source);
    }

    /// Sets the file for its list cache.
    pub fn list_cache(&mut self, file: CatalogueFile) {
        self.server.list_cache = Some(file);
    }

    /// Returns the handle of the server.
    pub fn handle(&self) -> ServerHandle {
        self.handle.clone()
    }
}

/// The slot for the next source of a server's credential.
pub type NextSource = Next<Option<Box<dyn CredentialSource>>>;

/// A server of a builder, and of the engine that it starts.
#[derive(Clone)]
pub struct ServerHandle {
    /// Its id.
    pub id: UpstreamId,
    /// The slot for its next endpoint, which an [`InputQueue::push_change`] of the transport applies. It must be of the
    /// same kind.
    pub next: Next<Endpoint>,
    /// The slot for the next source of its credential, or for none. It is applied together with the next endpoint. If it
    /// is empty, the source stays.
    pub next_source: NextSource,
}

/// The control socket of a process.
#[derive(Clone, Debug)]
pub struct ControlSocket {
    /// The directories for its file; the first usable one is taken.
    pub directories: Vec<PathBuf>,
    /// The configuration file, for the status.
    pub configuration: Option<String>,
}

impl Builder {
    /// Creates a builder without servers. The limits apply to the messages of all servers and clients.
    pub fn new(limits: Limits) -> Builder {
        Builder {
            limits,
            redactor: Redactor::default(),
            servers: Vec::new(),
            observer: (),
            guard: None,
            control_socket: None,
            metrics: None,
            multi: None,
            inputs: Arc::default(),
        }
    }
}

impl<O: Observer + 'static> Builder<O> {
    /// Adds a server with its policies.
    pub fn server(&mut self, config: UpstreamConfig, endpoint: Endpoint) -> ServerHandle {
        let id = UpstreamId(u16::try_from(self.servers.len()).unwrap_or(u16::MAX));
        let (next, next_source) = (Next::default(), NextSource::default());
        let handle = ServerHandle { id, next: next.clone(), next_source: next_source.clone() };
        self.servers.push(Server { config, endpoint, next, list_cache: None, source: None, next_source });
        handle
    }

    /// Sets the source of the credential of a server that has a URL. `UpstreamConfig::credential` names its kind.
    pub fn credential(&mut self, server: UpstreamId, source: Box<dyn CredentialSource>) {
        if let Some(server) = self.servers.get_mut(usize::from(server.0)) {
            server.source = Some(source);
        }
    }

    /// Sets the file for the list cache of a server: it is read at the start, and written when lists change.
    pub fn list_cache(&mut self, server: UpstreamId, file: CatalogueFile) {
        if let Some(server) = self.servers.get_mut(usize::from(server.0)) {
            server.list_cache = Some(file);
        }
    }

    /// Adds an observer of events, after those that were added before.
    pub fn observer<N: Observer + 'static>(self, observer: N) -> Builder<(O, N)> {
        let Builder { limits, redactor, servers, observer: first, guard, control_socket, metrics, multi, inputs } =
            self;
        let observer = (first, observer);
        Builder { limits, redactor, servers, observer, guard, control_socket, metrics, multi, inputs }
    }

    /// Sets the redactor for quoted text of servers. Without it, only text that looks like a credential is redacted.
    pub fn redactor(&mut self, redactor: Redactor) {
        self.redactor = redactor;
    }

    /// Sets the function that starts a guard. It is called if a server is a command. Without a guard, children may
    /// outlive this process when it is killed.
    pub fn guard(&mut self, start: impl FnOnce() -> io::Result<Guard> + 'static) {
        self.guard = Some(Box::new(start));
    }

    /// Opens a control socket at the start.
    pub fn control_socket(&mut self, socket: ControlSocket) {
        self.control_socket = Some(socket);
    }

    /// Serves metrics at this endpoint while the engine runs.
    pub fn metrics(&mut self, endpoint: metrics::endpoint::Endpoint) {
        self.metrics = Some(endpoint);
    }

    /// Sets a frontend with many clients. The engine then runs until it is stopped, whatever its clients do.
    pub fn multi_frontend(&mut self, frontend: Box<dyn MultiFrontend>) {
        self.multi = Some(frontend);
    }

    /// Returns the queue of external inputs of the engine.
    pub fn inputs(&self) -> Arc<InputQueue> {
        Arc::clone(&self.inputs)
    }

    /// Starts the engine with these clients and their servers. Must be called inside a tokio runtime. The engine ends
    /// when all its clients have left, unless it has a frontend with many, or after [`Running::stop`].
    pub fn start<F: Frontend + 'static>(self, clients: impl IntoIterator<Item = (UpstreamId, F)>) -> Running {
        let Builder { limits, redactor, servers, observer, guard, control_socket, metrics, multi, inputs } = self;
        let mut problems = Vec::new();
        let has_child = servers.iter().any(|server| matches!(server.endpoint, Endpoint::Child(_)));
        let guard = guard
            .filter(|_| has_child)
            .and_then(|start| start().map_err(|error| problems.push(Problem::NoGuard(error))).ok());

        let ids = (0..).map(UpstreamId);
        let (mut configs, mut endpoints, mut list_caches) = (Vec::new(), Vec::new(), Vec::new());
        let mut keepers = Vec::new();
        for (id, Server { config, endpoint, next, list_cache, source, next_source }) in ids.zip(servers) {
            configs.push(config);
            let mut cell = None;
            if matches!(endpoint, Endpoint::Remote(_)) {
                let handle = Keeper::start(id, source, next_source, redactor.clone(), Arc::clone(&inputs));
                cell = Some(handle.cell());
                keepers.push((id, handle));
            }
            endpoints.push((endpoint, next, cell));
            list_caches.extend(list_cache.map(|file| (id, file)));
        }
        let configuration = control_socket.as_ref().and_then(|socket| socket.configuration.clone());
        let store = StatusStore::new(configuration, &configs).with_redactor(redactor.clone()).shared();
        let is_shown = control_socket.is_some() || multi.is_some() || metrics.is_some();
        let socket = control_socket.and_then(|socket| {
            let opened = socket.open(&configs, &store, &inputs);
            opened.map_err(|why| problems.push(Problem::NoControlSocket(why))).ok()
        });
        let metrics = metrics.map(|endpoint| {
            let store = Arc::clone(&store);
            MetricsTask(tokio::spawn(endpoint.serve(Arc::new(move || metrics::text::of_store(&store)))))
        });
        let status = is_shown.then(|| StatusObserver::new(Arc::clone(&store)));

        let mut config = Config::new(configs);
        if multi.is_some() {
            config.lifetime = Lifetime::UntilStopped;
        }
        let mut engine = Engine::new(config, fastrand::u64(..));
        for (upstream, file) in &list_caches {
            if let Some(what) = file.read() {
                engine.handle(Input::Cached { upstream: *upstream, what }, Moment::ZERO);
            }
        }
        let host = Servers::new(endpoints, guard, limits.clone());
        let mut admission =
            Admission { endpoints: host.added(), status: Arc::clone(&store), redactor: redactor.clone(), inputs };
        let inputs = Arc::clone(&admission.inputs);
        let mut driver = Driver::new(engine, limits, host, (observer, status)).with_redactor(redactor);
        if let Some(multi) = multi {
            driver = driver.with_multi_frontend(multi);
        }
        for (upstream, file) in list_caches {
            driver = driver.with_cache_store(upstream, Box::new(file.store()));
        }
        for (upstream, keeper) in keepers {
            driver = driver.with_keeper(upstream, keeper);
        }
        for (id, (upstream, frontend)) in (1..).map(ClientId).zip(clients) {
            driver = driver.with_client(Client { id, upstream, frontend });
        }
        let engine = driver.run(move |cx| admission.poll(cx));
        let task = tokio::spawn(async move {
            let _metrics = metrics;
            engine.await
        });
        Running { task, inputs, problems, status: store, _socket: socket }
    }
}

/// The external inputs of a driver, with servers that are added while it runs.
struct Admission {
    endpoints: NewEndpoints,
    status: SharedStatus,
    redactor: Redactor,
    inputs: Arc<InputQueue>,
}

impl Admission {
    /// Returns the next external input. Servers come first, so that no other input is about an unknown one.
    fn poll<F>(&mut self, cx: &Context<'_>) -> Poll<External<F>> {
        match self.inputs.next_server() {
            Some(new) => Poll::Ready(External::Server(Box::new(self.admit(new)))),
            None => self.inputs.poll(cx).map(External::Input),
        }
    }

    fn admit(&mut self, new: NewServer) -> AddedServer {
        let (upstream, server) = (new.handle.id, new.server);
        let Server { config, endpoint, next, list_cache, source, next_source } = server;
        control::store::lock(&self.status).add_server(upstream, &config);
        let is_remote = matches!(endpoint, Endpoint::Remote(_));
        let keeper = is_remote
            .then(|| Keeper::start(upstream, source, next_source, self.redactor.clone(), Arc::clone(&self.inputs)));
        let cell = keeper.as_ref().map(KeeperHandle::cell);
        let mut endpoints = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        endpoints.insert(upstream, (endpoint, next, cell));
        let cached = list_cache.as_ref().and_then(CatalogueFile::read);
        let store = list_cache.map(|file| Box::new(file.store()) as Box<dyn CacheStore>);
        AddedServer { upstream, config, cached, store, keeper }
    }
}

impl ControlSocket {
    fn open(
        self,
        servers: &[UpstreamConfig],
        store: &SharedStatus,
        inputs: &Arc<InputQueue>,
    ) -> Result<SocketGuard, OpenError> {
        let name = servers.first().map_or("", |server| &server.name);
        let socket = Socket::open(&self.directories, name)?;
        let inputs = Arc::clone(inputs);
        let send_input: InputSender = Arc::new(move |input| inputs.push_command(input));
        Ok(socket.serve(Arc::clone(store), send_input))
    }
}

/// A started engine. It runs as a task, also when this value is dropped.
pub struct Running {
    task: JoinHandle<Ending>,
    inputs: Arc<InputQueue>,
    problems: Vec<Problem>,
    status: SharedStatus,
    /// Removes the file of the control socket.
    _socket: Option<SocketGuard>,
}

impl Running {
    /// Returns the parts that could not be started. The engine works without them.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Returns the status of the servers. It is kept up to date if there is a control socket or a frontend with many
    /// clients.
    pub fn status(&self) -> SharedStatus {
        Arc::clone(&self.status)
    }

    /// Stops the engine: it finishes running calls and accepts no new ones. The second time, it ends at once.
    pub fn stop(&self) {
        self.inputs.push(ExternalInput::Stop);
    }

    /// Waits for the end of the engine, when every request is answered and every child is reaped. Fails if the task
    /// panicked or was aborted. A cancelled wait loses nothing.
    pub async fn ended(&mut self) -> io::Result<Ending> {
        (&mut self.task).await.map_err(io::Error::other)
    }

    /// Ends the task without a shutdown sequence and waits for that.
    pub async fn abort(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

/// The task that serves metrics. It ends when this value is dropped.
struct MetricsTask(JoinHandle<()>);

impl Drop for MetricsTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A part of an engine that could not be started.
#[derive(Debug)]
pub enum Problem {
    /// There is no guard.
    NoGuard(io::Error),
    /// There is no control socket.
    NoControlSocket(OpenError),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::NoGuard(error) => {
                write!(f, "no guard: the server may outlive a killed Mendline ({error})")
            }
            Problem::NoControlSocket(why) => write!(f, "`mendline status` will not see this process: {why}"),
        }
    }
}
