use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;

use crate::neighbours::Neighbours;
use crate::settings::{Settings, SettingsError};
use crate::tables::Tables;

/// State that the workers of one router share.
#[derive(Debug)]
pub struct Shared {
    tables: ArcSwap<Tables>,
    /// Counts reloads, so that a packet costs workers one load to see that nothing has changed.
    epoch: AtomicU64,
    reloads: Mutex<()>,
    neighbours: Mutex<Neighbours>,
    /// Counts changes of what workers remember of neighbours.
    neighbour_epoch: AtomicU64,
}

impl Shared {
    /// A router's common part.
    ///
    /// # Errors
    ///
    /// Settings that contradict themselves.
    pub fn new(settings: Settings) -> Result<Arc<Shared>, SettingsError> {
        let tables = Tables::build(&settings, None)?;
        let mut neighbours = Neighbours::default();
        neighbours.set_static(&settings.neighbours);
        Ok(Arc::new(Shared {
            tables: ArcSwap::from_pointee(tables),
            epoch: AtomicU64::new(0),
            reloads: Mutex::new(()),
            neighbours: Mutex::new(neighbours),
            neighbour_epoch: AtomicU64::new(0),
        }))
    }

    /// New settings. Each packet sees the old or the new ones, and none is lost.
    ///
    /// # Errors
    ///
    /// Settings that contradict themselves; the old ones stay.
    pub fn reload(&self, settings: Settings) -> Result<(), SettingsError> {
        // One reload at a time: each takes over from the one before.
        let _turn = self.reloads.lock().unwrap_or_else(PoisonError::into_inner);
        let tables = Tables::build(&settings, Some(&self.tables.load()))?;
        self.neighbours().set_static(&settings.neighbours);
        self.forget_neighbours();
        // Tables before the count: who sees the new count must not be given the old tables, which
        // it would keep until the next reload.
        self.tables.store(Arc::new(tables));
        self.epoch.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// A port's link was down: who is there may have changed, so neighbours are asked anew.
    pub fn link_came_back(&self, port: u16) {
        self.neighbours().forget(port);
        self.forget_neighbours();
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    pub(crate) fn tables(&self) -> Arc<Tables> {
        self.tables.load_full()
    }

    pub(crate) fn neighbours(&self) -> MutexGuard<'_, Neighbours> {
        // A worker that panicked left the table whole: every change to it is one call.
        self.neighbours.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn neighbour_epoch(&self) -> u64 {
        self.neighbour_epoch.load(Ordering::Acquire)
    }

    /// Makes all workers ask the table again.
    pub(crate) fn forget_neighbours(&self) {
        self.neighbour_epoch.fetch_add(1, Ordering::Release);
    }
}
