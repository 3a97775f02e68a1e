//! The decision whether a request is answered, refused or redirected. Pure.

use axum::http::header::{COOKIE, HOST};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};

use super::token::Token;

/// The condition for access.
#[derive(Clone, Debug)]
pub enum Access {
    /// Requests on the loopback device for a name of this machine.
    Loopback,
    /// Requests with the token.
    Token(Token),
}

/// The decision about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is answered.
    Pass,
    /// It is refused, for the reason in this sentence.
    Refuse(StatusCode, &'static str),
    /// Its URL has the token: the answer sets a cookie and redirects to the URL without the token.
    Enter {
        /// The value of `Set-Cookie`.
        cookie: String,
        /// The path and query without the token.
        place: String,
    },
}

/// The names of the loopback device.
const OWN_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

const READ_ONLY: &str = "these pages are read-only: use GET or HEAD";
const OTHER_HOST: &str = "this server only answers requests for localhost, 127.0.0.1 and [::1], so that other sites \
                          cannot read it through their own host name (DNS rebinding); `orchestrate serve --bind \
                          ADDR` answers to other names, with a token";
const NO_TOKEN: &str =
    "open the URL that `orchestrate serve` printed: it contains the token that these pages need";

/// Judges the request with the headers `parts`.
pub(super) fn judge(access: &Access, parts: &Parts) -> Verdict {
    if parts.method != Method::GET && parts.method != Method::HEAD {
        return Verdict::Refuse(StatusCode::METHOD_NOT_ALLOWED, READ_ONLY);
    }
    match access {
        Access::Loopback if is_own_host(parts) => Verdict::Pass,
        Access::Loopback => Verdict::Refuse(StatusCode::MISDIRECTED_REQUEST, OTHER_HOST),
        Access::Token(token) => judge_token(token, parts),
    }
}

/// Whether every host name of the request is one of this machine. Ports are not compared, because forwarding changes
/// them.
fn is_own_host(parts: &Parts) -> bool {
    let named = parts.headers.get_all(HOST).iter().map(|host| host.to_str().unwrap_or_default());
    let in_line = parts.uri.authority().map(|authority| authority.as_str());
    let names: Vec<&str> = named.chain(in_line).collect();
    !names.is_empty() && names.into_iter().all(is_own_name)
}

/// Whether `host`, which can end in a port, is a name of this machine.
fn is_own_name(host: &str) -> bool {
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    OWN_NAMES.iter().any(|name| {
        let Some((begin, rest)) = host.split_at_checked(name.len()) else { return false };
        begin.eq_ignore_ascii_case(name) && (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port))
    })
}

fn judge_token(token: &Token, parts: &Parts) -> Verdict {
    let query = parts.uri.query().unwrap_or_default();
    let (given, others): (Vec<&str>, Vec<&str>) =
        query.split('&').partition(|part| part.starts_with("token="));
    let name = token.cookie_name();
    match given.first().and_then(|part| part.strip_prefix("token=")) {
        Some(word) if token.is(word) => Verdict::Enter {
            cookie: format!("{name}={}; Path=/; HttpOnly; SameSite=Strict", token.reveal()),
            place: place(parts.uri.path(), &others.join("&")),
        },
        None if cookies(parts, &name).any(|word| token.is(word)) => Verdict::Pass,
        _ => Verdict::Refuse(StatusCode::UNAUTHORIZED, NO_TOKEN),
    }
}

/// The values of the cookies called `name`.
fn cookies<'p>(parts: &'p Parts, name: &str) -> impl Iterator<Item = &'p str> {
    let lines = parts.headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(move |(own, _)| *own == name).map(|(_, value)| value)
}

/// `path` and `query` as a location on this server. Several slashes at the beginning would name another host.
fn place(path: &str, query: &str) -> String {
    let path = path.trim_start_matches(['/', '\\']);
    if query.is_empty() { format!("/{path}") } else { format!("/{path}?{query}") }
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn parts(method: &str, target: &str, headers: &[(&str, &str)]) -> Parts {
        let request = Request::builder().method(method).uri(target);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        request.body(()).unwrap().into_parts().0
    }

    fn status(verdict: &Verdict) -> u16 {
        match verdict {
            Verdict::Pass => 200,
            Verdict::Refuse(status, _) => status.as_u16(),
            Verdict::Enter { .. } => 303,
        }
    }

    #[test]
    fn answers_only_names_of_this_machine_on_any_port() {
        let get = |host: &str| status(&judge(&Access::Loopback, &parts("GET", "/", &[("host", host)])));
        for host in ["localhost", "LocalHost:8080", "127.0.0.1:1", "127.0.0.1", "[::1]", "[::1]:65535"] {
            assert_eq!(get(host), 200, "{host}");
        }
        let foreign = [
            "",
            "evil.example",
            "localhost.evil.example",
            "localhost:80@evil.example",
            "127.0.0.1.evil.example:80",
            "evil.example:80#localhost",
            "0.0.0.0",
            "127.0.0.2",
            "::1",
            "localhost:8o",
            "localhost evil",
            "löcalhost",
        ];
        for host in foreign {
            assert_eq!(get(host), 421, "{host}");
        }
        let judged = |target: &str, hosts: &[(&str, &str)]| {
            status(&judge(&Access::Loopback, &parts("GET", target, hosts)))
        };
        assert_eq!(judged("/", &[]), 421, "a request without a host name");
        assert_eq!(judged("/", &[("host", "localhost"), ("host", "evil.example")]), 421);
        assert_eq!(judged("http://evil.example/", &[("host", "localhost")]), 421);
        assert_eq!(judged("http://localhost:1/", &[("host", "localhost")]), 200);
    }

    #[test]
    fn rejects_methods_that_write() {
        let token = Access::Token(Token::random().unwrap());
        for access in [Access::Loopback, token] {
            for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"] {
                let verdict = judge(&access, &parts(method, "/", &[("host", "localhost")]));
                assert_eq!(status(&verdict), 405, "{method}");
            }
        }
        let head = parts("HEAD", "/", &[("host", "localhost")]);
        assert_eq!(judge(&Access::Loopback, &head), Verdict::Pass);
    }

    #[test]
    fn accepts_the_token_and_then_its_cookie() {
        let token = Token::random().unwrap();
        let (access, word, name) =
            (Access::Token(token.clone()), token.reveal().to_owned(), token.cookie_name());
        let get = |target: &str, cookie: &str| judge(&access, &parts("GET", target, &[("cookie", cookie)]));
        let Verdict::Enter { cookie, place } = get(&format!("/plan/a/?token={word}&x=1"), "") else {
            panic!("the token opens");
        };
        assert_eq!(place, "/plan/a/?x=1");
        assert_eq!(cookie, format!("{name}={word}; Path=/; HttpOnly; SameSite=Strict"));
        assert_eq!(get("/", &format!("other=1; {name}={word}")), Verdict::Pass);
        let upper = word.to_uppercase();
        let shorter = &word[..31];
        for (target, cookie) in [
            ("/".to_owned(), String::new()),
            ("/".to_owned(), format!("{name}=")),
            ("/".to_owned(), format!("{name}={shorter}")),
            ("/".to_owned(), format!("other={word}")),
            ("/?token=".to_owned(), String::new()),
            (format!("/?token={shorter}"), String::new()),
            (format!("/?TOKEN={word}"), String::new()),
            (format!("/?token={}", if upper == word { "0" } else { &upper }), String::new()),
            // A request with a wrong token and the cookie is refused, too.
            ("/?token=0".to_owned(), format!("{name}={word}")),
        ] {
            assert_eq!(status(&get(&target, &cookie)), 401, "{target} {cookie}");
        }
    }

    #[test]
    fn redirects_stay_on_this_server() {
        assert_eq!(place("//evil.example/", ""), "/evil.example/");
        assert_eq!(place("/\\evil.example/", ""), "/evil.example/");
        assert_eq!(place("/", ""), "/");
        assert_eq!(place("/job/a/", "from=1"), "/job/a/?from=1");
    }
}
