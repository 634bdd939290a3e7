//! Machines with a BMC that speaks Redfish (DMTF DSP0266): `ComputerSystem.Reset`, `PowerState`.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{json, Value};

use super::drive::{Fault, Found, Seen};
use super::endpoint::{Ask, Endpoint};
use super::{secret, Wanted};

/// A system of a BMC.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Redfish {
    /// The BMC of the machine.
    pub bmc: Endpoint,
    /// `Id` of the system, as in `/redfish/v1/Systems/ID`.
    pub system: String,
    /// Name of the user, beside `password_file`.
    pub user: Option<String>,
    /// File whose first line is the user's password; relative to the description.
    pub password_file: Option<PathBuf>,
    /// File whose first line is the token of a session; relative to the description.
    pub token_file: Option<PathBuf>,
    /// Type of the reset that sends it to sleep.
    #[serde(default = "graceful")]
    pub sleep: String,
    /// Type of the reset that wakes it.
    #[serde(default = "on")]
    pub wake: String,
}

fn graceful() -> String {
    "GracefulShutdown".to_owned()
}

fn on() -> String {
    "On".to_owned()
}

const ACTION: &str = "#ComputerSystem.Reset";

impl Redfish {
    pub(super) fn check(&self) -> Result<(), String> {
        match (&self.user, &self.password_file, &self.token_file) {
            (Some(_), Some(_), None) | (None, None, Some(_)) => {}
            _ => return Err("expected user and password_file, or token_file".to_owned()),
        }
        let is_id = |b: u8| b.is_ascii_alphanumeric() || b"-._~:@".contains(&b);
        if self.system.is_empty() || !self.system.bytes().all(is_id) {
            return Err(format!("found system {:?}, expected an `Id` such as 1", self.system));
        }
        self.bmc.check()
    }

    pub(super) fn secret(&self) -> Option<&PathBuf> {
        self.password_file.as_ref().or(self.token_file.as_ref())
    }

    /// Sends a request. Credentials are read each time, so that renewed ones are found; no session
    /// is opened, so none is left behind.
    async fn ask(
        &self,
        method: &'static str,
        path: &str,
        body: Option<Value>,
    ) -> Result<Value, Fault> {
        let file = self.secret().map_or(Path::new(""), PathBuf::as_path);
        let secret = secret(file).map_err(Fault::lasting)?;
        let credentials = match &self.user {
            Some(user) => format!("Authorization: Basic {}", base64(&format!("{user}:{secret}"))),
            None => format!("X-Auth-Token: {secret}"),
        };
        self.bmc.ask(&Ask { method, path, credentials: &credentials, body }).await
    }

    async fn system(&self) -> Result<Value, Fault> {
        self.ask("GET", &format!("/redfish/v1/Systems/{}", self.system), None).await
    }

    pub(super) async fn state(&self) -> Result<Found, Fault> {
        let system = self.system().await?;
        let word = system["PowerState"].as_str().unwrap_or_default();
        let seen = match word {
            "On" => Seen::Awake,
            "Off" | "Paused" => Seen::Asleep,
            "PoweringOn" | "PoweringOff" => Seen::Changing,
            _ => return Err(self.fault(&format!("found PowerState {word:?}, expected On or Off"))),
        };
        Ok(Found::new(seen, word))
    }

    fn fault(&self, what: &str) -> Fault {
        Fault::lasting(format!("system {} of {}: {what}", self.system, self.bmc.address))
    }

    /// Returns the target of the reset, and the types that the system allows; none if it does not
    /// say.
    async fn action(&self) -> Result<(String, Option<Vec<String>>), Fault> {
        let system = self.system().await?;
        let action = &system["Actions"][ACTION];
        let target = match action["target"].as_str() {
            Some(target) if is_path(target) => target.to_owned(),
            found => return Err(self.fault(&format!("found target {found:?} of {ACTION}"))),
        };
        let mut allowed = texts(&action["ResetType@Redfish.AllowableValues"]);
        if let Some(path) = action["@Redfish.ActionInfo"].as_str().filter(|path| is_path(path)) {
            let info = self.ask("GET", path, None).await?;
            let parameters = info["Parameters"].as_array().map_or(&[][..], Vec::as_slice);
            let found = parameters.iter().find(|parameter| parameter["Name"] == "ResetType");
            allowed = found.and_then(|found| texts(&found["AllowableValues"])).or(allowed);
        }
        Ok((target, allowed))
    }

    fn allows(&self, allowed: Option<&[String]>, wanted: &str) -> Result<(), Fault> {
        match allowed {
            Some(allowed) if !allowed.iter().any(|one| one == wanted) => Err(self.fault(&format!(
                "found reset type {wanted}, expected one that it allows: {}",
                allowed.join(", ")
            ))),
            _ => Ok(()),
        }
    }

    /// Checks that both resets are allowed.
    pub(super) async fn verify(&self) -> Result<(), Fault> {
        let (_, allowed) = self.action().await?;
        self.allows(allowed.as_deref(), &self.sleep)?;
        self.allows(allowed.as_deref(), &self.wake)
    }

    pub(super) async fn reset(&self, wanted: Wanted) -> Result<(), Fault> {
        let (target, allowed) = self.action().await?;
        let kind = if wanted == Wanted::Awake { &self.wake } else { &self.sleep };
        self.allows(allowed.as_deref(), kind)?;
        self.ask("POST", &target, Some(json!({ "ResetType": kind }))).await.map(drop)
    }
}

/// Returns whether a target is a path of the BMC itself that can stand in a request.
fn is_path(target: &str) -> bool {
    target.starts_with('/') && target.bytes().all(|b| b.is_ascii_graphic())
}

fn texts(list: &Value) -> Option<Vec<String>> {
    let list = list.as_array()?;
    Some(list.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

/// Encodes in Base64 (RFC 4648, section 4).
fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for part in text.as_bytes().chunks(3) {
        let byte = |at: usize| u32::from(part.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place)) as usize & 63];
            out.push(if place <= part.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn base64_is_that_of_the_rfc() {
        let known = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"];
        for (length, expected) in known.iter().enumerate() {
            assert_eq!(super::base64(&"foobar"[..length]), *expected);
        }
        assert_eq!(super::base64("\u{fb}\u{ff}"), "w7vDvw==");
    }
}
