//! Workloads of Kubernetes, scaled to zero and back through the `scale` subresource of `apps/v1`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::drive::{Fault, Found, Seen};
use super::endpoint::{Ask, Endpoint};
use super::{secret, Wanted};

/// A Deployment or a StatefulSet.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Kubernetes {
    /// The API server of the cluster.
    pub api: Endpoint,
    /// Namespace of the workload.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// Name of a Deployment.
    pub deployment: Option<String>,
    /// Name of a StatefulSet; in place of `deployment`.
    pub stateful_set: Option<String>,
    /// Replicas that it is woken with.
    #[serde(default = "one")]
    pub replicas: u32,
    /// File with the token of a service account; relative to the description.
    #[serde(default = "mounted")]
    pub token_file: PathBuf,
}

fn default_namespace() -> String {
    "default".to_owned()
}

const fn one() -> u32 {
    1
}

/// Returns the file into which a cluster puts the token of a pod's service account.
fn mounted() -> PathBuf {
    "/var/run/secrets/kubernetes.io/serviceaccount/token".into()
}

impl Kubernetes {
    pub(super) fn check(&self) -> Result<(), String> {
        let names = [Some(&self.namespace), self.deployment.as_ref(), self.stateful_set.as_ref()];
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b);
        for name in names.into_iter().flatten() {
            if name.is_empty() || !name.bytes().all(plain) {
                return Err(format!("found name {name:?}, expected a name of Kubernetes"));
            }
        }
        if self.deployment.is_some() == self.stateful_set.is_some() {
            return Err("expected either deployment or stateful_set".to_owned());
        }
        if !(1..=10_000).contains(&self.replicas) {
            return Err(format!("found replicas {}, expected 1 to 10000", self.replicas));
        }
        self.api.check()
    }

    fn path(&self) -> String {
        let (kind, name) = match (&self.deployment, &self.stateful_set) {
            (Some(name), _) => ("deployments", name.as_str()),
            (None, name) => ("statefulsets", name.as_deref().unwrap_or_default()),
        };
        format!("/apis/apps/v1/namespaces/{}/{kind}/{name}", self.namespace)
    }

    /// Sends a request. The token is read each time: a cluster renews it.
    async fn ask(
        &self,
        method: &'static str,
        path: &str,
        body: Option<Value>,
    ) -> Result<Value, Fault> {
        let token = secret(&self.token_file).map_err(Fault::lasting)?;
        let credentials = format!("Authorization: Bearer {token}");
        self.api.ask(&Ask { method, path, credentials: &credentials, body }).await
    }

    pub(super) async fn state(&self) -> Result<Found, Fault> {
        let found = self.ask("GET", &self.path(), None).await?;
        // Fields of 0 are left out.
        let count = |part: &str, name: &str| found[part][name].as_u64().unwrap_or(0);
        let wanted = found["spec"]["replicas"]
            .as_u64()
            .ok_or_else(|| Fault::lasting(format!("{}: found no spec.replicas", self.path())))?;
        let (ready, there) = (count("status", "readyReplicas"), count("status", "replicas"));
        let seen = match wanted {
            0 if there == 0 => Seen::Asleep,
            0 => Seen::Changing,
            _ if ready >= wanted => Seen::Awake,
            _ => Seen::Changing,
        };
        Ok(Found::new(seen, &format!("{ready} of {wanted} replicas ready")))
    }

    /// Sets the number of replicas, unless it is as wanted already. The version that was read goes
    /// with it: if another client has changed it meanwhile, the server answers 409.
    pub(super) async fn scale(&self, wanted: Wanted) -> Result<(), Fault> {
        let path = format!("{}/scale", self.path());
        let mut scale = self.ask("GET", &path, None).await?;
        // 0 is left out there.
        let is_awake = scale["spec"]["replicas"].as_u64().unwrap_or(0) > 0;
        if is_awake == (wanted == Wanted::Awake) {
            return Ok(());
        }
        scale["spec"]["replicas"] =
            if wanted == Wanted::Awake { self.replicas.into() } else { 0.into() };
        self.ask("PUT", &path, Some(scale)).await.map(drop)
    }
}
