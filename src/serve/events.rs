//! Server-sent events of an open page: its version, the sizes of its logs, and the sensors. The page then fetches the
//! missing parts.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, KeepAliveStream, Sse};
use futures_util::stream::{self, Stream};

use super::viewers::{News, Viewer};

/// After this time without an event, a comment keeps the connection alive.
const SILENCE: Duration = Duration::from_secs(15);

/// A browser reconnects after this time.
const RETRY: Duration = Duration::from_secs(1);

/// The events for `viewer`, until its connection is closed.
pub(super) fn events(
    viewer: Viewer,
) -> Sse<KeepAliveStream<impl Stream<Item = Result<Event, Infallible>> + Send + 'static>> {
    let stream = stream::unfold((viewer, News::default()), |(mut viewer, mut sent)| async move {
        loop {
            if let Some((name, data)) = next(&viewer.news(), &mut sent) {
                let event = Event::default().event(name).data(data).retry(RETRY);
                return Some((Ok(event), (viewer, sent)));
            }
            viewer.changed().await?;
        }
    });
    Sse::new(stream).keep_alive(KeepAlive::new().interval(SILENCE))
}

/// The name and data of the next event for a viewer to which `sent` was sent. `None` if nothing has changed.
fn next(news: &News, sent: &mut News) -> Option<(&'static str, String)> {
    if news.version != sent.version {
        sent.version = news.version;
        return Some(("change", news.version.to_string()));
    }
    if news.logs != sent.logs {
        sent.logs.clone_from(&news.logs);
        return Some(("logs", serde_json::json!(news.logs).to_string()));
    }
    if news.sensors != sent.sensors {
        sent.sensors.clone_from(&news.sensors);
        return Some(("sensors", news.sensors.clone()));
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn each_change_is_sent_once() {
        let mut sent = News::default();
        assert_eq!(next(&News::default(), &mut sent), None, "nothing is known yet");
        let logs = BTreeMap::from([("stdout.log".to_owned(), 12)]);
        let news = News { version: 3, logs, sensors: "61 °C".to_owned() };
        assert_eq!(next(&news, &mut sent).unwrap(), ("change", "3".to_owned()));
        assert_eq!(next(&news, &mut sent).unwrap(), ("logs", r#"{"stdout.log":12}"#.to_owned()));
        assert_eq!(next(&news, &mut sent).unwrap(), ("sensors", "61 °C".to_owned()));
        assert_eq!(next(&news, &mut sent), None);
    }
}
