//! Listens and answers until a signal ends the server.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

use super::desk::Desk;
use super::directories::Directories;
use super::guard::Access;
use super::library::Library;
use super::pages::Pages;
use super::routes::routes;
use super::source::Source;
use super::viewers::Viewers;
use crate::stop::StopSignals;
use crate::store::Store;

/// The most connections at a time. Each viewer has at most two.
const CONNECTIONS: usize = 512;

/// The longest time that a connection may take for the headers of a request, or be idle.
const HEAD_TIME: Duration = Duration::from_secs(30);

/// The pause after an error that does not concern a single connection, such as too many open files.
const PAUSE: Duration = Duration::from_millis(200);

/// The most attempts to find a port that is free in both IPv4 and IPv6.
const TRIES: usize = 20;

/// The most further connections that are answered with 503. Others are closed immediately.
const REFUSALS: usize = 64;

const FULL: &str = "there are too many connections; close some pages\n";

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is taken.
    #[error("port {} of {} is in use", .0.port(), .0.ip())]
    Busy(SocketAddr),
    /// The system refuses this address.
    #[error("cannot listen at {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The pages cannot be rendered.
    #[error("cannot render the pages")]
    Pages(#[from] minijinja::Error),
    /// The system has no more handles or threads.
    #[error("cannot start")]
    Start(#[from] io::Error),
}

/// Listening sockets, on which nothing is answered yet.
#[derive(Debug)]
pub struct Listeners {
    sockets: Vec<TcpListener>,
    port: u16,
}

impl Listeners {
    /// On the loopback device, by IPv4 and, where there is one, by IPv6. The system chooses the port if `port` is 0.
    ///
    /// # Errors
    /// [`ServeError::Busy`] or [`ServeError::Listen`].
    pub fn loopback(port: u16) -> Result<Listeners, ServeError> {
        let mut tries = 0;
        loop {
            let first = listen((Ipv4Addr::LOCALHOST, port).into())?;
            let number = first.local_addr()?.port();
            tries += 1;
            match listen((Ipv6Addr::LOCALHOST, number).into()) {
                Ok(second) => return Ok(Listeners { sockets: vec![first, second], port: number }),
                // `localhost` could resolve to another server.
                Err(ServeError::Busy(_)) if port == 0 && tries < TRIES => {}
                Err(busy @ ServeError::Busy(_)) => return Err(busy),
                Err(_) => return Ok(Listeners { sockets: vec![first], port: number }),
            }
        }
    }

    /// Only at `address`. The system chooses the port if `port` is 0.
    ///
    /// # Errors
    /// As [`Listeners::loopback`].
    pub fn at(address: IpAddr, port: u16) -> Result<Listeners, ServeError> {
        let listener = listen((address, port).into())?;
        Ok(Listeners { port: listener.local_addr()?.port(), sockets: vec![listener] })
    }

    /// The number of the port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    let listener = TcpListener::bind(address).map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => ServeError::Busy(address),
        _ => ServeError::Listen { address, source },
    })?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves the pages of `store`, read by `source`, for requests with `access`. Returns immediately after the first
/// signal to stop, even with open connections.
///
/// # Errors
/// [`ServeError`].
pub fn serve<S: Source + 'static>(
    listeners: Listeners,
    access: Access,
    store: Store,
    source: S,
) -> Result<(), ServeError> {
    let viewers = Arc::new(Viewers::default());
    let directories = Arc::new(Directories::of(store));
    let pages = Pages::built_in()?;
    let library = Library::new(source, pages, Arc::clone(&directories), Arc::clone(&viewers));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let mut signals = StopSignals::listen()?;
        let router = routes(Desk::open(directories, viewers, library)?, access);
        let places = Places { free: Arc::new(Semaphore::new(CONNECTIONS)), router };
        let full = Router::new().fallback(|| async { (StatusCode::SERVICE_UNAVAILABLE, FULL) });
        let refusals = Places { free: Arc::new(Semaphore::new(REFUSALS)), router: full };
        for listener in listeners.sockets {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            tokio::spawn(accept(listener, places.clone(), refusals.clone()));
        }
        signals.next().await;
        Ok(())
    });
    runtime.shutdown_background();
    served
}

/// Free places for connections, and the router that answers them.
#[derive(Clone)]
struct Places {
    free: Arc<Semaphore>,
    router: Router,
}

/// Accepts connections. Those without a free place are refused.
async fn accept(listener: tokio::net::TcpListener, places: Places, refusals: Places) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        for Places { free, router } in [&places, &refusals] {
            if let Ok(place) = Arc::clone(free).try_acquire_owned() {
                tokio::spawn(answer(stream, router.clone(), place));
                break;
            }
        }
    }
}

/// Answers the requests of a connection, which occupies `place` until it ends.
async fn answer(stream: TcpStream, router: Router, place: OwnedSemaphorePermit) {
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
    // An error means that the client has closed the connection.
    let _ = server.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)).await;
    drop(place);
}
