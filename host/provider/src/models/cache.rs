//! Remembers model lists for a few minutes, so that frequent questions cost the provider nothing.
//!
//! A list belongs to an address and a key; only a fingerprint of the key is kept. A provider that cannot be asked gets
//! an empty list, and is asked again soon.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::models_with;
use crate::Options;
use tool_config::{ProviderApi, ProviderSettings};

/// Lifetime of a model list. Vendors add a model every few weeks; a local server loads one in a minute or two.
const MODEL_CACHE_SECONDS: u64 = 300;

/// Lifetime of the failure to ask a provider: a user who has just started it looks again soon.
const MODEL_CACHE_FAILURE_SECONDS: u64 = 15;

/// Providers whose lists are remembered. A user has three, with a few changes of address and key.
const MODEL_CACHE_ENTRIES_MAX: usize = 16;

/// The lists of some providers.
#[derive(Debug, Default)]
pub struct ModelCache {
    slots: Mutex<HashMap<ModelListKey, ModelListSlot>>,
    hasher: RandomState,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ModelListKey {
    url: String,
    api: ProviderApi,
    fingerprint: u64,
}

/// One provider's list. Its lock is held while the provider is asked, so that many who ask at once ask it once.
type ModelListSlot = Arc<tokio::sync::Mutex<Option<CachedModels>>>;

#[derive(Debug, Clone)]
struct CachedModels {
    models: Vec<String>,
    until: Instant,
}

impl ModelCache {
    /// The models that the provider offers: discovered within 2 seconds, or remembered. Empty if the provider cannot be
    /// asked.
    pub async fn of(&self, settings: &ProviderSettings) -> Vec<String> {
        self.of_with(settings, &Options::default()).await
    }

    /// Like [`Self::of`], through a proxy if the options name one.
    pub async fn of_with(&self, settings: &ProviderSettings, options: &Options) -> Vec<String> {
        let slot = self.slot(self.key(settings));
        let mut entry = slot.lock().await;
        if let Some(entry) = entry.as_ref().filter(|entry| Instant::now() < entry.until) {
            return entry.models.clone();
        }
        let (models, seconds) = match models_with(settings, options).await {
            Ok(models) => (models, MODEL_CACHE_SECONDS),
            Err(problem) => {
                tracing::debug!(code = %problem.kind, message = problem.message, "no model list");
                (Vec::new(), MODEL_CACHE_FAILURE_SECONDS)
            }
        };
        *entry = Some(CachedModels {
            models: models.clone(),
            until: Instant::now() + Duration::from_secs(seconds),
        });
        models
    }

    fn key(&self, settings: &ProviderSettings) -> ModelListKey {
        ModelListKey {
            url: settings.url.clone(),
            api: settings.api,
            fingerprint: self
                .hasher
                .hash_one((settings.secrets().collect::<Vec<_>>(), &settings.api_key_command)),
        }
    }

    fn slot(&self, key: ModelListKey) -> ModelListSlot {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if !slots.contains_key(&key) && slots.len() >= MODEL_CACHE_ENTRIES_MAX {
            // A task that waits on a slot keeps it alive until the answer. Only changed keys make this many slots.
            slots.clear();
        }
        Arc::clone(slots.entry(key).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tool_config::Secret;
    use tool_core::api::ProviderName;
    use tool_model_server::{ModelServer, Script};

    fn settings(url: &str, key: &str) -> ProviderSettings {
        ProviderSettings {
            api_key: Some(Secret::new(key)),
            ..ProviderSettings::new(ProviderName::Local, ProviderApi::Chat, url, "tiny")
        }
    }

    fn server() -> ModelServer {
        let script = Script {
            models: vec!["tiny".into(), "large".into()],
            ..Script::new([])
        };
        ModelServer::start(script).expect("loopback has a free port")
    }

    /// Lets remembered lists grow old.
    async fn age(cache: &ModelCache, seconds: u64) {
        let slots: Vec<ModelListSlot> = {
            let slots = cache.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.values().cloned().collect()
        };
        for slot in slots {
            if let Some(entry) = slot.lock().await.as_mut() {
                entry.until -= Duration::from_secs(seconds);
            }
        }
    }

    #[tokio::test]
    async fn models_are_asked_once_for_all_who_ask_and_again_after_minutes() {
        let (server, cache) = (server(), ModelCache::default());
        let settings = settings(&server.url(), "a-key-of-some-length");
        let all = futures_util::future::join_all((0..5).map(|_| cache.of(&settings))).await;
        assert!(all.iter().all(|models| models == &["tiny", "large"]), "{all:?}");
        assert_eq!(server.lists().len(), 1);
        age(&cache, MODEL_CACHE_SECONDS - 1).await;
        cache.of(&settings).await;
        assert_eq!(server.lists().len(), 1);
        age(&cache, 1).await;
        cache.of(&settings).await;
        assert_eq!(server.lists().len(), 2);
        assert!(!format!("{cache:?}").contains("a-key-of-some-length"));
    }

    #[tokio::test]
    async fn models_of_another_key_are_another_list() {
        let (server, cache) = (server(), ModelCache::default());
        cache.of(&settings(&server.url(), "one")).await;
        cache.of(&settings(&server.url(), "two")).await;
        assert_eq!(server.lists().len(), 2);
        for number in 0..2 * MODEL_CACHE_ENTRIES_MAX {
            cache.of(&settings("http://127.0.0.1:1/v1", &number.to_string())).await;
        }
        let slots = cache.slots.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(slots.len() <= MODEL_CACHE_ENTRIES_MAX);
    }

    #[tokio::test]
    async fn models_of_an_absent_server_are_none_and_it_is_asked_again_soon() {
        let server = server();
        let address = server.address();
        drop(server);
        let cache = ModelCache::default();
        let settings = settings(&format!("http://{address}/v1"), "");
        assert_eq!(cache.of(&settings).await, Vec::<String>::new());
        let script = Script {
            models: vec!["tiny".into()],
            ..Script::new([])
        };
        let server = ModelServer::start_on(address, script).expect("the port is free again");
        assert_eq!(cache.of(&settings).await, Vec::<String>::new());
        age(&cache, MODEL_CACHE_FAILURE_SECONDS).await;
        assert_eq!(cache.of(&settings).await, ["tiny"]);
        assert_eq!(server.lists().len(), 1);
    }
}
