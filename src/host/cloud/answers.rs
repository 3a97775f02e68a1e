//! Parses the answers of metadata services. An answer of an unexpected form is ignored: it may come from a captive
//! portal, a proxy or another service.

use serde::Deserialize;

use crate::record::{CloudFacts, CloudNoticeKind, CloudProvider};

/// The place of a machine from the zone and the machine type of Google's service: `projects/123/zones/us-central1-a`
/// and `projects/123/machineTypes/g2-standard-8`.
pub(super) fn gcp(zone: &str, machine_type: &str) -> Option<CloudFacts> {
    let zone = word(last_of(zone, "zones")?)?;
    let instance = word(last_of(machine_type, "machineTypes")?)?;
    let (region, _) = zone.rsplit_once('-')?;
    Some(place(CloudProvider::Gcp, word(region)?, Some(zone), instance))
}

/// The name at the end of `projects/…/<kind>/<name>`.
fn last_of<'a>(path: &'a str, kind: &str) -> Option<&'a str> {
    match path.trim().split('/').collect::<Vec<_>>()[..] {
        ["projects", _, of, name] if of == kind => Some(name),
        _ => None,
    }
}

/// The place of a machine from Amazon's identity document.
pub(super) fn aws(document: &str) -> Option<CloudFacts> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Identity {
        region: String,
        availability_zone: String,
        instance_type: String,
    }
    let Identity { region, availability_zone, instance_type } = serde_json::from_str(document).ok()?;
    let zone = word(&availability_zone)?;
    Some(place(CloudProvider::Aws, word(&region)?, Some(zone), word(&instance_type)?))
}

/// The place of a machine from Azure's description of it, and its name, which distinguishes its announcements from
/// those about other machines.
pub(super) fn azure(document: &str) -> Option<(CloudFacts, String)> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Compute {
        location: String,
        vm_size: String,
        /// Empty in a region without zones.
        #[serde(default)]
        zone: String,
        name: String,
    }
    let Compute { location, vm_size, zone, name } = serde_json::from_str(document).ok()?;
    let zone = if zone.is_empty() { None } else { Some(word(&zone)?) };
    Some((place(CloudProvider::Azure, word(&location)?, zone, word(&vm_size)?), name))
}

fn place(provider: CloudProvider, region: String, zone: Option<String>, instance: String) -> CloudFacts {
    let provider = Some(provider.name().to_owned());
    CloudFacts { provider, region: Some(region), zone, instance: Some(instance) }
}

/// The longest name of a region, a zone or a machine type.
const LONGEST: usize = 64;

/// `text` if it can be such a name. Any other text is rejected, so names need no sanitising.
fn word(text: &str) -> Option<String> {
    let text = text.trim();
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    let is_word = !text.is_empty() && text.len() <= LONGEST && text.chars().all(is_letter);
    is_word.then(|| text.to_owned())
}

/// Amazon's session token, which the other requests need. `None` if `text` cannot be one.
pub(super) fn aws_token(text: &str) -> Option<&str> {
    let text = text.trim();
    let is_token = !text.is_empty() && text.len() <= 1024 && text.chars().all(|it| it.is_ascii_graphic());
    is_token.then_some(text)
}

/// Google's announcements, from its answers about preemption and maintenance.
pub(super) fn gcp_notices(preempted: Option<&str>, maintenance: Option<&str>) -> Vec<CloudNoticeKind> {
    let is_preempted = preempted.is_some_and(|answer| answer.trim() == "TRUE");
    let maintenance = match maintenance.map(str::trim) {
        Some("TERMINATE_ON_HOST_MAINTENANCE") => Some(CloudNoticeKind::Stop),
        Some("MIGRATE_ON_HOST_MAINTENANCE") => Some(CloudNoticeKind::Pause),
        _ => None,
    };
    is_preempted.then_some(CloudNoticeKind::Preemption).into_iter().chain(maintenance).collect()
}

/// Amazon's announcements, from its answers about a spot instance's end and about its risk.
pub(super) fn aws_notices(action: Option<&str>, rebalance: Option<&str>) -> Vec<CloudNoticeKind> {
    #[derive(Deserialize)]
    struct Action {
        action: String,
    }
    #[derive(Deserialize)]
    struct Recommendation {
        #[serde(rename = "noticeTime")]
        _notice_time: String,
    }
    let ends = action.and_then(|text| serde_json::from_str::<Action>(text).ok());
    let ends = ends.is_some_and(|it| matches!(it.action.as_str(), "terminate" | "stop" | "hibernate"));
    let risk = rebalance.is_some_and(|text| serde_json::from_str::<Recommendation>(text).is_ok());
    let [ends, risk] = [(ends, CloudNoticeKind::Preemption), (risk, CloudNoticeKind::Risk)]
        .map(|(is, kind)| is.then_some(kind));
    ends.into_iter().chain(risk).collect()
}

/// Azure's announcements about the machine called `name`. The document has the events of all machines of a scale set.
pub(super) fn azure_notices(document: &str, name: &str) -> Vec<CloudNoticeKind> {
    #[derive(Deserialize)]
    struct Scheduled {
        #[serde(rename = "Events")]
        events: Vec<Event>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Event {
        event_type: String,
        resources: Vec<String>,
    }
    let kind = |event: Event| match event.event_type.as_str() {
        "Preempt" => Some(CloudNoticeKind::Preemption),
        "Reboot" | "Redeploy" => Some(CloudNoticeKind::Stop),
        "Freeze" => Some(CloudNoticeKind::Pause),
        // `Terminate` is requested by the machine's owner.
        _ => None,
    };
    let Ok(Scheduled { events }) = serde_json::from_str(document) else { return Vec::new() };
    let ours = events.into_iter().filter(|event| event.resources.iter().any(|resource| resource == name));
    ours.filter_map(kind).collect()
}

/// The results of all parsers of this module for `text`, for the fuzz tests.
#[cfg(test)]
pub(in crate::host) fn parse_all(text: &str) -> String {
    let places = [gcp(text, "projects/1/machineTypes/n1"), gcp("projects/1/zones/a-b-c", text), aws(text)];
    let notices = [gcp_notices(Some(text), Some(text)), aws_notices(Some(text), Some(text))];
    format!(
        "{places:?} {:?} {notices:?} {:?} {:?}",
        azure(text),
        azure_notices(text, "vm-1"),
        aws_token(text)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts([provider, region, zone, instance]: [&str; 4]) -> Option<CloudFacts> {
        let known = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let [provider, region, zone, instance] = [provider, region, zone, instance].map(known);
        Some(CloudFacts { provider, region, zone, instance })
    }

    const ZONE: &str = "projects/123456789012/zones/us-central1-a";
    const MACHINE: &str = "projects/123456789012/machineTypes/g2-standard-8";

    const IDENTITY: &str = r#"{ "accountId": "123456789012", "architecture": "x86_64",
        "availabilityZone": "us-west-2-lax-1a", "billingProducts": null, "imageId": "ami-5fb8c835",
        "instanceId": "i-1234567890abcdef0", "instanceType": "u-6tb1.112xlarge", "privateIp": "10.158.112.84",
        "pendingTime": "2016-11-19T16:32:11Z", "region": "us-west-2", "version": "2017-09-30" }"#;

    const COMPUTE: &str = r#"{ "azEnvironment": "AzurePublicCloud", "location": "westeurope", "name": "vm-1",
        "osType": "Linux", "resourceGroupName": "mine", "subscriptionId": "8d10da13-8125-4ba9-a717-bf7490507b3d",
        "vmId": "02aab8a4-74ef-476e-8182-f6d2ba4166a6", "vmSize": "Standard_NC24ads_A100_v4", "zone": "2" }"#;

    #[test]
    fn only_the_place_is_kept_of_each_providers_answer() {
        assert_eq!(gcp(ZONE, MACHINE), facts(["gcp", "us-central1", "us-central1-a", "g2-standard-8"]));
        assert_eq!(aws(IDENTITY), facts(["aws", "us-west-2", "us-west-2-lax-1a", "u-6tb1.112xlarge"]));
        let (place, name) = azure(COMPUTE).unwrap();
        assert_eq!(Some(place), facts(["azure", "westeurope", "2", "Standard_NC24ads_A100_v4"]));
        assert_eq!(name, "vm-1");
        let (place, _) = azure(&COMPUTE.replace("\"zone\": \"2\"", "\"zone\": \"\"")).unwrap();
        assert_eq!(Some(place), facts(["azure", "westeurope", "", "Standard_NC24ads_A100_v4"]));
    }

    #[test]
    fn an_answer_of_an_unexpected_form_is_ignored() {
        let portal = "<html><body>Please log in</body></html>";
        for other in
            [portal, "", "{}", "null", "projects/1/zones/", "us-central1-a", "projects/1/2/zones/a-b"]
        {
            assert_eq!(gcp(other, MACHINE), None, "{other}");
            assert_eq!(gcp(ZONE, other), None, "{other}");
            assert_eq!(aws(other), None, "{other}");
            assert_eq!(azure(other), None, "{other}");
        }
        assert_eq!(gcp(MACHINE, ZONE), None, "in the wrong order");
        assert_eq!(gcp("projects/1/zones/nowhere", MACHINE), None, "the zone has no region");
        assert_eq!(aws_token(portal), None);
        assert_eq!(aws_token(" AQAEAL==\n"), Some("AQAEAL=="));
        assert_eq!(aws_token(&"a".repeat(1025)), None);
    }

    #[test]
    fn control_characters_and_long_names_are_rejected() {
        let long = "a".repeat(LONGEST + 1);
        for bad in ["a\u{1b}[31mb", "a b", "a\u{202e}b", "<b>", "é", "", long.as_str()] {
            let json = serde_json::to_string(bad).unwrap();
            assert_eq!(gcp(ZONE, &format!("projects/1/machineTypes/{bad}")), None, "{bad:?}");
            assert_eq!(aws(&IDENTITY.replace("\"us-west-2\"", &json)), None, "{bad:?}");
            assert_eq!(aws(&IDENTITY.replace("\"u-6tb1.112xlarge\"", &json)), None, "{bad:?}");
            assert_eq!(azure(&COMPUTE.replace("\"westeurope\"", &json)), None, "{bad:?}");
            assert!(bad.is_empty() || azure(&COMPUTE.replace("\"2\"", &json)).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn google_announces_preemption_and_maintenance() {
        use CloudNoticeKind::{Pause, Preemption, Stop};
        assert_eq!(gcp_notices(Some("FALSE"), Some("NONE")), []);
        assert_eq!(gcp_notices(None, None), []);
        assert_eq!(gcp_notices(Some("TRUE\n"), Some("NONE")), [Preemption]);
        assert_eq!(gcp_notices(Some("FALSE"), Some("MIGRATE_ON_HOST_MAINTENANCE")), [Pause]);
        let both = gcp_notices(Some("TRUE"), Some("TERMINATE_ON_HOST_MAINTENANCE"));
        assert_eq!(both, [Preemption, Stop]);
        assert_eq!(gcp_notices(Some("<html>TRUE</html>"), Some("<html>")), []);
    }

    #[test]
    fn amazon_announces_the_end_and_the_risk_of_a_spot_instance() {
        use CloudNoticeKind::{Preemption, Risk};
        let action = |action: &str| format!(r#"{{"action": "{action}", "time": "2017-09-18T08:22:00Z"}}"#);
        let rebalance = r#"{"noticeTime": "2020-10-27T08:22:00Z"}"#;
        assert_eq!(aws_notices(None, None), []);
        for word in ["stop", "terminate", "hibernate"] {
            assert_eq!(aws_notices(Some(&action(word)), None), [Preemption], "{word}");
        }
        assert_eq!(aws_notices(Some(&action("terminate")), Some(rebalance)), [Preemption, Risk]);
        assert_eq!(aws_notices(Some(&action("dance")), Some("<html>")), []);
    }

    #[test]
    fn azures_events_of_other_machines_are_ignored() {
        use CloudNoticeKind::{Pause, Preemption, Stop};
        let events = |events: &[(&str, &str)]| {
            let event = |(kind, name): &(&str, &str)| {
                format!(
                    r#"{{"EventId": "f020ba2e", "EventStatus": "Scheduled", "EventType": "{kind}",
                        "ResourceType": "VirtualMachine", "Resources": ["vm-0", "{name}"], "EventSource": "Platform",
                        "NotBefore": "Mon, 19 Sep 2016 18:29:47 GMT", "Description": "", "DurationInSeconds": -1}}"#
                )
            };
            let events: Vec<String> = events.iter().map(event).collect();
            azure_notices(
                &format!(r#"{{"DocumentIncarnation": 1, "Events": [{}]}}"#, events.join(",")),
                "vm-1",
            )
        };
        assert_eq!(events(&[]), []);
        assert_eq!(events(&[("Preempt", "vm-1")]), [Preemption]);
        assert_eq!(events(&[("Preempt", "vm-2")]), [], "of another machine");
        let others = [("Freeze", "vm-1"), ("Reboot", "vm-1"), ("Redeploy", "vm-1"), ("Terminate", "vm-1")];
        assert_eq!(events(&others), [Pause, Stop, Stop]);
        assert_eq!(azure_notices("<html>", "vm-1"), []);
    }
}
