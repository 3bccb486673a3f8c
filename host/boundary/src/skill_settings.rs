//! Settings and stored values of a skill: `wasi:config/store` within the effect `config`, and `wasi:keyvalue/store`
//! within `store`.
//!
//! Both interfaces are drafts, so exactly one version of each is served. [`Services`](crate::Services) does the work:
//! it reads the user's file and stores the values.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use wasmtime::component::{HasSelf, Linker, Resource};

use crate::bindings::outside::wasi::config::store as config;
use crate::bindings::outside::wasi::keyvalue::store as keyvalue;
use crate::services::KeyValueStore;
use crate::store::{GuestComponent, StoreState};
use crate::{CallError, RawArguments, arguments};
use tool_core::api::Effect;

/// Name of the only bucket.
const BUCKET: &str = "default";

/// Bytes of the longest key.
const KEY_BYTES_MAX: usize = 100;

/// Keys in one page of a list.
const PAGE_KEYS_MAX: usize = 200;

/// Adds the settings to the linker of a component that imports them.
pub(crate) fn link_config(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    config::add_to_linker::<StoreState, HasSelf<StoreState>>(linker, |state| state)
}

/// Adds the stored values to the linker of a component that imports them.
pub(crate) fn link_keyvalue(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    keyvalue::add_to_linker::<StoreState, HasSelf<StoreState>>(linker, |state| state)
}

impl StoreState {
    /// The settings; the inner error is for the guest. A guest without the effect ends.
    fn settings(&self) -> wasmtime::Result<Result<BTreeMap<String, String>, config::Error>> {
        self.call.check()?;
        self.allow(Effect::Config)?;
        let component = self.component()?;
        let settings = self.services()?.settings(&component.name);
        let checked = settings.and_then(|settings| checked_settings(&component, settings));
        Ok(checked.map_err(config::Error::Upstream))
    }

    /// The component of a call that has grants.
    fn component(&self) -> wasmtime::Result<Arc<GuestComponent>> {
        let grants = self.grants.as_ref();
        grants
            .map(|grants| Arc::clone(&grants.component))
            .ok_or_else(|| wasmtime::Error::msg("a component that describes itself has no settings"))
    }

    fn bucket(&self, bucket: &Resource<keyvalue::Bucket>) -> wasmtime::Result<&dyn KeyValueStore> {
        self.call.check()?;
        let bucket: &KeyValueBucket = self.entry(bucket)?;
        Ok(&*bucket.0)
    }
}

/// Converts the settings to texts if they satisfy the component's schema.
fn checked_settings(
    component: &GuestComponent,
    settings: Map<String, Value>,
) -> Result<BTreeMap<String, String>, String> {
    let settings = Value::Object(settings);
    if let Some(schema) = &component.configuration {
        let schema = arguments::compile_schema(schema)?;
        let checked = arguments::check_arguments(&component.name, &schema, &RawArguments::Value(&settings));
        checked.map_err(|error| match error {
            CallError::Arguments { pointer, expected, .. } => format!(
                "[skills.config.{}] is not valid at `{pointer}`: expected {expected}",
                component.name
            ),
            error => error.to_string(),
        })?;
    }
    let Value::Object(settings) = settings else {
        return Ok(BTreeMap::new());
    };
    // The interface has only texts, so every other value is passed as JSON.
    let text = |value: Value| match value {
        Value::String(text) => text,
        value => value.to_string(),
    };
    Ok(settings.into_iter().map(|(key, value)| (key, text(value))).collect())
}

impl config::Host for StoreState {
    fn get(&mut self, key: String) -> wasmtime::Result<Result<Option<String>, config::Error>> {
        let settings = self.settings()?;
        Ok(settings.map(|mut settings| settings.remove(&key)))
    }

    fn get_all(&mut self) -> wasmtime::Result<Result<Vec<(String, String)>, config::Error>> {
        let settings = self.settings()?;
        Ok(settings.map(|settings| settings.into_iter().collect()))
    }
}

struct KeyValueBucket(Box<dyn KeyValueStore>);

/// Returns the key if it is valid.
fn check_key(key: &str) -> Result<&str, keyvalue::Error> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        let message = format!("a key has from 1 to {KEY_BYTES_MAX} bytes");
        return Err(keyvalue::Error::Other(message));
    }
    Ok(key)
}

impl keyvalue::Host for StoreState {
    fn open(&mut self, identifier: String) -> wasmtime::Result<Result<Resource<keyvalue::Bucket>, keyvalue::Error>> {
        self.call.check()?;
        let context = self.allow(Effect::Store)?;
        // Values that an earlier call stored may hold text from a server or a dependency.
        let component = self.component()?;
        self.call.note_outside(format!("the store of `{}`", component.name));
        if !matches!(&*identifier, "" | BUCKET) {
            return Ok(Err(keyvalue::Error::NoSuchStore));
        }
        let services = Arc::clone(&self.services()?);
        match services.open_store(&component.name, context.repository.root()) {
            Ok(store) => Ok(Ok(self.push(KeyValueBucket(store))?)),
            Err(reason) => Ok(Err(keyvalue::Error::Other(reason))),
        }
    }
}

impl keyvalue::HostBucket for StoreState {
    fn get(
        &mut self,
        bucket: Resource<keyvalue::Bucket>,
        key: String,
    ) -> wasmtime::Result<Result<Option<Vec<u8>>, keyvalue::Error>> {
        let store = self.bucket(&bucket)?;
        let value = check_key(&key).and_then(|key| store.get(key).map_err(keyvalue::Error::Other));
        if let Ok(Some(value)) = &value {
            self.count_read(value.len())?;
        }
        Ok(value)
    }

    fn set(
        &mut self,
        bucket: Resource<keyvalue::Bucket>,
        key: String,
        value: Vec<u8>,
    ) -> wasmtime::Result<Result<(), keyvalue::Error>> {
        let store = self.bucket(&bucket)?;
        Ok(check_key(&key).and_then(|key| store.set(key, &value).map_err(keyvalue::Error::Other)))
    }

    fn delete(
        &mut self,
        bucket: Resource<keyvalue::Bucket>,
        key: String,
    ) -> wasmtime::Result<Result<(), keyvalue::Error>> {
        let store = self.bucket(&bucket)?;
        Ok(check_key(&key).and_then(|key| store.delete(key).map_err(keyvalue::Error::Other)))
    }

    fn exists(
        &mut self,
        bucket: Resource<keyvalue::Bucket>,
        key: String,
    ) -> wasmtime::Result<Result<bool, keyvalue::Error>> {
        let store = self.bucket(&bucket)?;
        let keys = check_key(&key).and_then(|_| store.keys().map_err(keyvalue::Error::Other));
        Ok(keys.map(|keys| keys.contains(&key)))
    }

    fn list_keys(
        &mut self,
        bucket: Resource<keyvalue::Bucket>,
        cursor: Option<u64>,
    ) -> wasmtime::Result<Result<keyvalue::KeyResponse, keyvalue::Error>> {
        let keys = match self.bucket(&bucket)?.keys() {
            Ok(keys) => keys,
            Err(reason) => return Ok(Err(keyvalue::Error::Other(reason))),
        };
        // The cursor is an index. It may skip or repeat keys that change between two pages, which the interface allows.
        let start = usize::try_from(cursor.unwrap_or(0)).unwrap_or(usize::MAX);
        let page: Vec<String> = keys.iter().skip(start).take(PAGE_KEYS_MAX).cloned().collect();
        let next = start.saturating_add(page.len());
        Ok(Ok(keyvalue::KeyResponse {
            keys: page,
            cursor: (next < keys.len()).then_some(next as u64),
        }))
    }

    fn drop(&mut self, bucket: Resource<keyvalue::Bucket>) -> wasmtime::Result<()> {
        self.remove::<KeyValueBucket, _>(&bucket)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_are_held_to_the_schema_of_the_component() {
        let component = GuestComponent {
            name: "tickets".to_owned(),
            configuration: Some(json!({
                "type": "object",
                "properties": {"project": {"type": "string"}, "limit": {"type": "integer", "minimum": 1}},
                "required": ["project"],
                "additionalProperties": false,
            })),
        };
        let checked = |settings: Value| match settings {
            Value::Object(settings) => checked_settings(&component, settings),
            _ => Err("it is no table".to_owned()),
        };
        let settings = checked(json!({"project": "CORE", "limit": 5})).expect("it fits");
        assert_eq!(settings["project"], "CORE");
        assert_eq!(settings["limit"], "5", "other values are JSON");
        for (settings, place) in [
            (json!({}), "``: expected"),
            (json!({"project": 1}), "`/project`: expected"),
            (json!({"project": "CORE", "limit": 0}), "`/limit`: expected"),
        ] {
            let refused = checked(settings).expect_err("it does not fit");
            let start = format!("[skills.config.tickets] is not valid at {place}");
            assert!(refused.starts_with(&start), "{refused}");
        }
        let free = GuestComponent::default();
        assert!(checked_settings(&free, Map::new()).is_ok_and(|settings| settings.is_empty()));
    }
}
