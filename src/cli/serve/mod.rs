//! `orchestrate serve`: live pages of the store in a browser.
//!
//! [`live`] reads the store for the pages, and [`job`] a single job.

mod job;
mod live;

use std::net::IpAddr;

use super::find::{RUN_FIRST, no_store};
use super::output::{hint, print_line};
use super::{Exit, Failure, Global};
use crate::serve::{Access, Listeners, ServeError, Token, serve, yield_to_workers};
use crate::store::Store;

use live::LiveStore;

/// The arguments of `orchestrate serve`.
#[derive(Debug, clap::Args)]
pub(super) struct ServeArgs {
    /// Open the pages in this machine's browser.
    // All users of the machine can see the command line of the browser, which would contain the token.
    #[arg(long, conflicts_with = "bind")]
    open: bool,
    /// Port to listen on [default: a free one].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Listen at this address instead of only the loopback device. The pages then need the token in the printed URL.
    /// Nothing is encrypted.
    #[arg(long, value_name = "ADDR")]
    bind: Option<IpAddr>,
}

/// Prints the URL, and serves the pages until a signal. Takes no lock.
pub(super) fn run(args: &ServeArgs, global: &Global) -> Result<Exit, Failure> {
    let store = Store::at(&global.store).map_err(Failure::store)?;
    if let Some(failure) = no_store(&store) {
        return Err(failure.hint(RUN_FIRST));
    }
    let port = args.port.unwrap_or(0);
    let listeners =
        args.bind.map_or_else(|| Listeners::loopback(port), |address| Listeners::at(address, port));
    let listeners = listeners.map_err(not_listening)?;
    let (access, url) = match args.bind {
        None => (Access::Loopback, format!("http://127.0.0.1:{}/", listeners.port())),
        Some(address) => {
            let token = Token::random()?;
            let url = format!("http://{}:{}/?token={}", host(address), listeners.port(), token.reveal());
            (Access::Token(token), url)
        }
    };
    print_line(&url)?;
    hint(global.quiet, "Ctrl-C ends it; runs continue");
    // Before the priority is lowered, because the browser would inherit it.
    if args.open
        && let Err(error) = open::that_detached(&url)
    {
        hint(global.quiet, &format!("no browser can be opened here ({error}): open the URL yourself"));
    }
    yield_to_workers();
    serve(listeners, access, store.clone(), LiveStore::new(store))?;
    Ok(Exit::Done)
}

/// The host in a URL for `address`.
fn host(address: IpAddr) -> String {
    match address {
        // 0.0.0.0 is not a destination, so the URL has the host name.
        address if address.is_unspecified() => nix::unistd::gethostname()
            .ok()
            .and_then(|name| name.into_string().ok())
            .unwrap_or_else(|| "localhost".to_owned()),
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

fn not_listening(error: ServeError) -> Failure {
    let remedy = match &error {
        ServeError::Busy(_) => "leave out `--port` to get a free one, or choose another",
        ServeError::Listen { .. } => {
            "`--bind` takes an address of this machine, such as 0.0.0.0 for all of them"
        }
        ServeError::Pages(_) | ServeError::Start(_) => return error.into(),
    };
    Failure::new(Exit::Unexpected, error).hint(remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_formatted_for_urls() {
        let written = |address: &str| host(address.parse().unwrap());
        assert_eq!(written("192.0.2.1"), "192.0.2.1");
        assert_eq!(written("2001:db8::1"), "[2001:db8::1]");
        assert!(!written("0.0.0.0").contains("0.0.0.0") && !written("::").is_empty());
    }
}
