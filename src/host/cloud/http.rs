//! One request to a metadata service. The service is part of the machine, on a link-local address. So no proxy is used,
//! no redirect followed, and it answers immediately.
#![expect(clippy::disallowed_methods, reason = "a request has a time limit")]

use std::time::{Duration, Instant};

use ureq::http::Response;
use ureq::{Agent, Body};

/// The most bytes of an answer, and of its headers. The longest is Azure's, with the public keys and tags of a machine.
const MOST: usize = 32 << 10;

/// A header: its name and its value.
pub(super) type Header<'a> = (&'static str, &'a str);

/// A service at an address.
#[derive(Clone, Debug)]
pub(super) struct Http {
    agent: Agent,
    /// `http://169.254.169.254`
    address: String,
}

impl Http {
    /// The service at `address`. Connecting may take three tenths of `patience`.
    pub(super) fn at(address: String, patience: Duration) -> Http {
        let config = Agent::config_builder()
            .proxy(None)
            .max_redirects(0)
            .http_status_as_error(false)
            .max_idle_connections(0)
            .max_response_header_size(MOST)
            .timeout_connect(Some(patience * 3 / 10));
        Http { agent: config.build().into(), address }
    }

    /// The body of the answer to a GET request, with at most [`MOST`] bytes. `None` if it has not arrived by `until`,
    /// if its status is not 200, or if it lacks the header `proof`.
    pub(super) fn get(
        &self,
        path: &str,
        header: Header<'_>,
        proof: Option<Header<'_>>,
        until: Instant,
    ) -> Option<String> {
        let request = self.agent.get(format!("{}{path}", self.address)).header(header.0, header.1);
        let answer = request.config().timeout_global(Some(left(until)?)).build().call();
        text(answer.ok()?, proof)
    }

    /// The same for a PUT request without a body.
    pub(super) fn put(&self, path: &str, header: Header<'_>, until: Instant) -> Option<String> {
        let request = self.agent.put(format!("{}{path}", self.address)).header(header.0, header.1);
        let answer = request.config().timeout_global(Some(left(until)?)).build().send_empty();
        text(answer.ok()?, None)
    }
}

/// The time until `until`; `None` if it has passed.
fn left(until: Instant) -> Option<Duration> {
    Some(until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
}

fn text(mut answer: Response<Body>, proof: Option<Header<'_>>) -> Option<String> {
    let shows = |(name, value): Header<'_>| answer.headers().get(name).is_some_and(|found| found == value);
    if answer.status() != 200 || !proof.is_none_or(shows) {
        return None;
    }
    let bytes = answer.body_mut().with_config().limit(MOST as u64).read_to_vec().ok()?;
    String::from_utf8(bytes).ok()
}
