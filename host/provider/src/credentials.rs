//! Provides the current key if a program prints it: the program runs before the first request, and again after a
//! refusal.
//!
//! The caller's [`KeyCommand`] starts the program, because this crate starts none.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::Mutex;

use tool_config::{ProviderSettings, Secret};
use tool_core::api::{ErrorKind, Problem};

/// Runs the user's command that prints a key. Blocks for a bounded time.
#[derive(Clone)]
pub struct KeyCommand(Arc<KeyRunner>);

type KeyRunner = dyn Fn(&[String]) -> Result<Secret, Problem> + Send + Sync;

impl KeyCommand {
    /// Wraps the function that starts the program.
    pub fn new(run: impl Fn(&[String]) -> Result<Secret, Problem> + Send + Sync + 'static) -> Self {
        Self(Arc::new(run))
    }

    /// This command; `observe` sees each key before anything is sent with it.
    #[must_use]
    pub fn observed(self, observe: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self::new(move |words| {
            let key = (self.0)(words)?;
            observe(key.expose());
            Ok(key)
        })
    }
}

impl fmt::Debug for KeyCommand {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("KeyCommand")
    }
}

/// The settings of a provider with the current key.
pub(super) struct KeyHolder {
    command: Option<KeyCommand>,
    current: RwLock<Arc<ProviderSettings>>,
    /// Held while the program runs, so that concurrent requests run it once.
    running: Mutex<()>,
}

impl KeyHolder {
    pub(super) fn new(settings: &ProviderSettings, command: Option<KeyCommand>) -> Self {
        Self {
            command,
            current: RwLock::new(Arc::new(settings.clone())),
            running: Mutex::new(()),
        }
    }

    /// The settings, with the key if it is known.
    pub(super) fn settings(&self) -> Arc<ProviderSettings> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// True if a program prints the key.
    pub(super) fn has_command(&self) -> bool {
        !self.settings().api_key_command.is_empty()
    }

    /// Runs the program if it prints the key and has not run yet.
    pub(super) async fn prepare(&self) -> Result<(), Problem> {
        if !self.has_command() || self.settings().api_key.is_some() {
            return Ok(());
        }
        self.run(None).await
    }

    /// Runs the program again, unless another request has done so since `refused` was sent.
    pub(super) async fn renew(&self, refused: Option<&Secret>) -> Result<(), Problem> {
        self.run(refused).await
    }

    async fn run(&self, refused: Option<&Secret>) -> Result<(), Problem> {
        let _running = self.running.lock().await;
        let settings = self.settings();
        if settings.api_key.is_some() && settings.api_key.as_ref() != refused {
            return Ok(());
        }
        let command = self.command.clone().ok_or_else(|| {
            Problem::new(
                ErrorKind::ConfigKeyMissing,
                "The program that prints the key cannot be run here",
            )
            .with_hint("this is a bug: set `api_key` instead of `api_key_command`")
        })?;
        let words = settings.api_key_command.clone();
        let ran = tokio::task::spawn_blocking(move || (command.0)(&words)).await;
        let key = ran.map_err(|error| {
            Problem::new(
                ErrorKind::ConfigKeyMissing,
                format!("The program that prints the key could not be run: {error}"),
            )
        })??;
        let keyed = ProviderSettings {
            api_key: Some(key),
            ..(*settings).clone()
        };
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keyed);
        Ok(())
    }
}
