//! The requests to each provider's metadata service. They ask for single values where possible: the whole description
//! of a machine includes its owner's data, which is private and can be long.
#![expect(clippy::disallowed_methods, reason = "a service has to answer in time")]

use std::time::{Duration, Instant};

use super::answers;
use super::http::{Header, Http};
use crate::record::{CloudFacts, CloudNoticeKind, CloudProvider};

/// The header that Google's service requires in a request, and sends in each answer.
const GOOGLE: Header<'static> = ("Metadata-Flavor", "Google");
/// The header that Azure's service requires.
const AZURE: Header<'static> = ("Metadata", "true");
/// The lifetime of Amazon's token, in seconds: the other requests follow immediately.
const TOKEN: Header<'static> = ("X-aws-ec2-metadata-token-ttl-seconds", "60");

/// A machine in the cloud.
#[derive(Clone, Debug)]
pub struct InCloud {
    /// Its place.
    pub place: CloudFacts,
    /// Its metadata service.
    pub service: MetadataService,
}

/// The metadata service of a machine.
#[derive(Clone, Debug)]
pub struct MetadataService {
    provider: CloudProvider,
    http: Http,
    /// The time limit for all requests of one kind together.
    patience: Duration,
    /// Azure's name of the machine. Never written to a file.
    name: String,
}

impl MetadataService {
    /// The service of `provider` at `address`, such as `http://169.254.169.254`, with the time limit `patience`.
    pub fn at(provider: CloudProvider, address: String, patience: Duration) -> MetadataService {
        MetadataService { provider, http: Http::at(address, patience), patience, name: String::new() }
    }

    /// Asks where the machine is. `None` if there is no such service, or it does not answer in time.
    pub fn locate(self) -> Option<InCloud> {
        let until = Instant::now() + self.patience;
        let (place, name) = match self.provider {
            CloudProvider::Gcp => {
                let value = |name: &str| self.google(name, until);
                (answers::gcp(&value("zone")?, &value("machine-type")?)?, String::new())
            }
            CloudProvider::Aws => {
                let document = self.amazon(&self.token(until)?, "dynamic/instance-identity/document", until);
                (answers::aws(&document?)?, String::new())
            }
            CloudProvider::Azure => {
                // Later versions include the owner's data in the answer.
                let path = "/metadata/instance/compute?api-version=2020-09-01&format=json";
                answers::azure(&self.http.get(path, AZURE, None, until)?)?
            }
        };
        Some(InCloud { place, service: MetadataService { name, ..self } })
    }

    /// The provider's announcements about the machine. Empty if the service does not answer in time.
    pub fn notices(&self) -> Vec<CloudNoticeKind> {
        let until = Instant::now() + self.patience;
        match self.provider {
            CloudProvider::Gcp => {
                let [preempted, maintenance] =
                    ["preempted", "maintenance-event"].map(|name| self.google(name, until));
                answers::gcp_notices(preempted.as_deref(), maintenance.as_deref())
            }
            CloudProvider::Aws => {
                let Some(token) = self.token(until) else { return Vec::new() };
                let [action, rebalance] =
                    ["meta-data/spot/instance-action", "meta-data/events/recommendations/rebalance"]
                        .map(|path| self.amazon(&token, path, until));
                answers::aws_notices(action.as_deref(), rebalance.as_deref())
            }
            CloudProvider::Azure => {
                let path = "/metadata/scheduledevents?api-version=2020-07-01";
                let events = self.http.get(path, AZURE, None, until);
                events.map_or_else(Vec::new, |events| answers::azure_notices(&events, &self.name))
            }
        }
    }

    /// A value from Google's service.
    fn google(&self, name: &str, until: Instant) -> Option<String> {
        self.http.get(&format!("/computeMetadata/v1/instance/{name}"), GOOGLE, Some(GOOGLE), until)
    }

    /// A document from Amazon's service.
    fn amazon(&self, token: &str, path: &str, until: Instant) -> Option<String> {
        self.http.get(&format!("/latest/{path}"), ("X-aws-ec2-metadata-token", token), None, until)
    }

    /// The session token that Amazon's service requires.
    fn token(&self, until: Instant) -> Option<String> {
        let token = self.http.put("/latest/api/token", TOKEN, until)?;
        answers::aws_token(&token).map(str::to_owned)
    }
}
