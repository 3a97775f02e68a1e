//! The routes.

use std::io;
use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path as Names, RawQuery, Request, State};
use axum::http::header::{ALLOW, CONTENT_TYPE, LOCATION, SET_COOKIE};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use super::address::Address;
use super::desk::Desk;
use super::directories::Directories;
use super::events::events;
use super::guard::{Access, Verdict, judge};
use super::logs::{Piece, logs_of, read_piece};
use super::policy::Policy;
use crate::text::size_text;

const NO_PAGE: &str = "there is no such page; the index is at /";

/// The state that all requests share.
#[derive(Debug)]
struct Gate {
    access: Access,
    policy: Policy,
}

/// The routes to the pages of `desk`, for requests with `access`.
pub(super) fn routes(desk: Desk, access: Access) -> Router {
    let gate = Arc::new(Gate { access, policy: Policy::of_pages() });
    Router::new()
        .route("/", get(index))
        .route("/events", get(index_events))
        .route("/plan/{name}/", get(plan))
        .route("/plan/{name}/events", get(plan_events))
        .route("/plan/{name}/{*path}", get(file))
        .route("/job/{name}/", get(job))
        .route("/job/{name}/events", get(job_events))
        .route("/job/{name}/attempt/{attempt}/", get(attempt))
        .route("/job/{name}/attempt/{attempt}/events", get(attempt_events))
        .route("/job/{name}/attempt/{attempt}/log/{log}", get(log))
        .fallback(|| async { refusal(StatusCode::NOT_FOUND, NO_PAGE) })
        .with_state(desk)
        .layer(from_fn_with_state(gate, guarded))
}

/// Judges a request before it is answered, and adds the headers of the policy to every answer.
async fn guarded(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let mut response = match judge(&gate.access, &parts) {
        Verdict::Pass => next.run(Request::from_parts(parts, body)).await,
        Verdict::Refuse(status, why) => refusal(status, why),
        Verdict::Enter { cookie, place } => {
            (StatusCode::SEE_OTHER, [(SET_COOKIE, cookie), (LOCATION, place)]).into_response()
        }
    };
    gate.policy.add_to(response.headers_mut());
    response
}

fn refusal(status: StatusCode, why: &str) -> Response {
    let mut response = (status, format!("{why}\n")).into_response();
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}

async fn page(desk: &Desk, address: Address) -> Response {
    match desk.page(address).await {
        Some(shown) => (shown.status, Html(shown.html.clone())).into_response(),
        None => refusal(StatusCode::NOT_FOUND, NO_PAGE),
    }
}

async fn watch(desk: &Desk, address: Address) -> Response {
    match desk.watch(address).await {
        Some(viewer) => events(viewer).into_response(),
        None => refusal(StatusCode::NOT_FOUND, NO_PAGE),
    }
}

async fn index(State(desk): State<Desk>) -> Response {
    page(&desk, Address::Index).await
}

async fn index_events(State(desk): State<Desk>) -> Response {
    watch(&desk, Address::Index).await
}

async fn plan(State(desk): State<Desk>, Names(name): Names<String>) -> Response {
    page(&desk, Address::Plan(name)).await
}

async fn plan_events(State(desk): State<Desk>, Names(name): Names<String>) -> Response {
    watch(&desk, Address::Plan(name)).await
}

async fn job(State(desk): State<Desk>, Names(name): Names<String>) -> Response {
    page(&desk, Address::Job { name, attempt: None }).await
}

async fn job_events(State(desk): State<Desk>, Names(name): Names<String>) -> Response {
    watch(&desk, Address::Job { name, attempt: None }).await
}

async fn attempt(State(desk): State<Desk>, Names((name, number)): Names<(String, u32)>) -> Response {
    page(&desk, Address::Job { name, attempt: Some(number) }).await
}

async fn attempt_events(State(desk): State<Desk>, Names((name, number)): Names<(String, u32)>) -> Response {
    watch(&desk, Address::Job { name, attempt: Some(number) }).await
}

/// A figure or a table beside a report.
async fn file(State(desk): State<Desk>, Names((plan, path)): Names<(String, String)>) -> Response {
    let kind = match Path::new(&path).extension().and_then(|ending| ending.to_str()) {
        Some("svg") => "image/svg+xml",
        Some("csv") => "text/csv; charset=utf-8",
        _ => return refusal(StatusCode::NOT_FOUND, NO_PAGE),
    };
    match desk.file(plan, path).await {
        Some(contents) => ([(CONTENT_TYPE, kind)], contents).into_response(),
        None => refusal(StatusCode::NOT_FOUND, NO_PAGE),
    }
}

/// A piece of a log, as JSON. It begins at the byte `from` of the query.
async fn log(
    State(desk): State<Desk>,
    Names((name, number, log)): Names<(String, u32, String)>,
    RawQuery(query): RawQuery,
) -> Response {
    let directories = desk.directories();
    let mut parts = query.as_deref().unwrap_or_default().split('&');
    let from = parts.find_map(|part| part.strip_prefix("from=")?.parse().ok());
    let read = spawn_blocking(move || piece(&directories, &name, number, &log, from)).await;
    match read {
        Ok(Some(Ok(piece))) => {
            ([(CONTENT_TYPE, "application/json")], grown(&piece).to_string()).into_response()
        }
        Ok(Some(Err(_)) | None) => {
            refusal(StatusCode::NOT_FOUND, "there is no such log, or it cannot be read")
        }
        Err(_) => refusal(StatusCode::INTERNAL_SERVER_ERROR, "the log cannot be read"),
    }
}

/// The JSON of a piece of a log. The size is a text, such as `1.5 KiB`.
fn grown(Piece { from, end, size, text }: &Piece) -> Value {
    json!({ "from": from, "end": end, "size": size_text(*size), "text": text })
}

/// A piece of the log `log` of the attempt `number`, in the job directory `name`, from the byte `from` on. `None` if
/// the store has no such directory, attempt or log.
fn piece(
    directories: &Directories,
    name: &str,
    number: u32,
    log: &str,
    from: Option<u64>,
) -> Option<io::Result<Piece>> {
    let attempts = directories.find(name)?.attempts().ok()?;
    let attempt = attempts.into_iter().find(|attempt| attempt.number() == number)?;
    let (_, path) = logs_of(&attempt).into_iter().find(|(own, _)| own == log)?;
    Some(read_piece(directories.store().root(), &path, from))
}
