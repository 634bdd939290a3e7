//! What a router is told, and whoever may change it while packets go by: a reload, ports that come
//! back, and the kernel's keys. One at a time, each from what the one before has left.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use halfwink_dataplane::{AppSettings, Settings, Shared};

use super::config::{Config, FIXED};
use super::interface::Interface;
use super::keeper::Keeper;
use super::keys::Table;
use super::sync::locked;
use halfwink_live::program::config::{changes, refuse};

/// The settings of a router, and where they come from.
pub(super) struct Loader {
    loaded: Mutex<Loaded>,
    shared: Arc<Shared>,
    sources: Sources,
}

/// Sources of settings beside the description.
pub(super) struct Sources {
    pub(super) start_unix_ns: u64,
    pub(super) keeper: Arc<Keeper>,
}

struct Loaded {
    config: Config,
    interfaces: Vec<Interface>,
    settings: Settings,
    table: Table,
}

impl Loader {
    /// The first settings of a router.
    ///
    /// # Errors
    /// The file, the line and what was expected.
    pub(super) fn new(
        config: Config,
        interfaces: Vec<Interface>,
        sources: Sources,
        mut table: Table,
    ) -> Result<Loader, String> {
        let settings = config.settings(&interfaces, &sources, &mut table)?;
        let shared = Shared::new(settings.clone()).map_err(|e| e.to_string())?;
        let loaded = Mutex::new(Loaded { config, interfaces, settings, table });
        Ok(Loader { loaded, shared, sources })
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(super) fn config(&self) -> Config {
        locked(&self.loaded).config.clone()
    }

    /// Takes what can be changed from a new description; what has changed.
    ///
    /// # Errors
    /// What is wrong, or can only change by a restart; then nothing changes.
    pub(super) fn reload(&self, config: Config) -> Result<Vec<String>, String> {
        let mut loaded = locked(&self.loaded);
        let loaded = &mut *loaded;
        let changes = changes(&loaded.config, &config);
        refuse(&changes, &FIXED)?;
        let settings = config.settings(&loaded.interfaces, &self.sources, &mut loaded.table)?;
        self.shared.reload(settings.clone()).map_err(|e| e.to_string())?;
        (loaded.config, loaded.settings) = (config, settings);
        Ok(changes)
    }

    /// Ports are back, perhaps with other addresses and neighbours.
    pub(super) fn ports_back(&self, interfaces: Vec<Interface>, back: &[u16]) {
        let mut loaded = locked(&self.loaded);
        let loaded = &mut *loaded;
        // The settings were valid before; a file that has gone since leaves them as they are.
        let settings = loaded.config.settings(&interfaces, &self.sources, &mut loaded.table);
        if let Ok(settings) = settings {
            if self.shared.reload(settings.clone()).is_ok() {
                loaded.settings = settings;
            }
        }
        back.iter().for_each(|&port| self.shared.link_came_back(port));
        loaded.interfaces = interfaces;
    }

    /// Changes what is known of the kernel's associations; `keys_changed` uses it.
    pub(super) fn with_table<T>(&self, change: impl FnOnce(&mut Table) -> T) -> T {
        change(&mut locked(&self.loaded).table)
    }

    /// Returns the time at which the next association expires.
    pub(super) fn next_end(&self) -> Option<Instant> {
        locked(&self.loaded).table.next_end()
    }

    /// Uses the associations that there are now. All else stays as it is, files included.
    pub(super) fn keys_changed(&self) {
        let mut loaded = locked(&self.loaded);
        let loaded = &mut *loaded;
        let app = loaded.config.app_settings(&self.sources, &mut loaded.table);
        let result = app.and_then(|app| {
            let settings = Settings { app, ..loaded.settings.clone() };
            self.shared.reload(settings.clone()).map_err(|e| e.to_string())?;
            loaded.settings = settings;
            Ok(())
        });
        if let Err(why) = result {
            halfwink_live::say!("halfwink: {why}; the associations stay as they are");
        }
    }

    /// Gives up the numbers of associations that are used no more, after a while in which packets
    /// that were under way have left.
    pub(super) fn forget(&self) {
        let loaded = locked(&self.loaded);
        if let AppSettings::Ipsec(ipsec) = &loaded.settings.app {
            let used = ipsec.outbound.iter().chain(&ipsec.inbound).map(|used| &used.numbers);
            self.sources.keeper.keep_only(&used.collect::<Vec<_>>());
        }
    }
}
