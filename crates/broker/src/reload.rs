//! Settings that are read again while the broker runs (SIGHUP): what can change without a restart is put in force.

use std::collections::BTreeSet;
use std::sync::Arc;

use fencepost_metadata::StaticConfig;
use fencepost_metadata::config::{ConfigError, LISTENERS};
use fencepost_metadata::keys::{Scope, Update};

use crate::Broker;

/// What became of the settings that had changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// Keys whose new value is in force, unless IncrementalAlterConfigs has set another.
    pub applied: Vec<String>,
    /// Keys whose new value counts after a restart.
    pub needs_restart: Vec<String>,
}

impl Broker {
    /// The settings that were given at the start, or at the last reload.
    pub(crate) fn statics(&self) -> Arc<StaticConfig> {
        self.statics.load_full()
    }

    /// Compares `given` with the settings in force and takes over what can change while the broker runs.
    ///
    /// Errors: the mixture of old and new settings is none that the broker could have been started with; nothing changes.
    pub fn reload(self: &Arc<Self>, given: &StaticConfig) -> Result<Reloaded, ConfigError> {
        let _turn = self.publishing.lock().expect("no holder of this lock panics");
        let old = self.statics();
        let names: BTreeSet<&str> = old.iter().chain(given.iter()).map(|(name, _)| name).collect();
        let (mut reloaded, mut pairs) = (Reloaded::default(), Vec::new());
        for name in names {
            let (was, is) = (old.get(name), given.get(name));
            let applies = was == is || can_change(name);
            if was != is {
                let list = if applies { &mut reloaded.applied } else { &mut reloaded.needs_restart };
                list.push(name.to_owned());
            }
            let value = if applies { is } else { was };
            pairs.extend(value.map(|value| (name.to_owned(), value.to_owned())));
        }
        if reloaded.applied.is_empty() {
            return Ok(reloaded);
        }
        let statics = Arc::new(StaticConfig::new(pairs)?);
        self.statics.store(Arc::clone(&statics));
        self.controller.configure(|controller| controller.set_statics(statics));
        self.apply_all_configs(&self.image());
        Ok(reloaded)
    }
}

fn can_change(name: &str) -> bool {
    match Scope::Broker.find(name).map(|key| key.update) {
        Some(Update::PerBroker | Update::ClusterWide | Update::Resource) => !LISTENERS.contains(&name),
        // A key that nobody knows has no effect before or after.
        Some(Update::ReadOnly) | None => false,
    }
}
