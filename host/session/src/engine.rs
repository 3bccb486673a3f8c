//! The parts of the engine that a session needs, as a trait, so that tests can replace them: the provider, and the
//! skills.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tool_config::ProviderSettings;
use tool_core::api::{Effect, Problem, SkillEntry};
use tool_provider::Provider;
use tool_skill::lock::{LockDifference, SkillLock};
use tool_skill::{CallContext, CallReport, LockedSkills, OfferedTools, RawArguments, SkillHost, SkillScope};

/// Environment variables by name.
pub type Variables = BTreeMap<String, String>;

/// Receives keys that a program has printed, so that they are redacted everywhere.
pub type KeyObserver = Arc<dyn Fn(&str) + Send + Sync>;

/// Connects providers and runs skills.
pub trait Engine: Send + Sync + 'static {
    /// Prepares the enabled provider for requests. `environment` has its proxies; `on_key` receives every key that a
    /// program prints for it.
    ///
    /// # Errors
    ///
    /// The provider is not configured, or its key is missing.
    fn connect(
        &self,
        settings: &ProviderSettings,
        environment: &Variables,
        on_key: &KeyObserver,
    ) -> Result<Arc<dyn Provider>, Problem>;

    /// All skills, in the versions of a repository's lock file.
    fn entries(&self, lock: Option<&dyn LockedSkills>) -> Vec<SkillEntry>;

    /// The effects that a skill declares; `None` if there is no such skill.
    fn effects(&self, name: &str, lock: Option<&SkillLock>) -> Option<Vec<Effect>>;

    /// Differences between the skills and a repository's lock file.
    fn differences(&self, lock: &SkillLock, root: &Path) -> Vec<LockDifference>;

    /// Tools for a model: the skills that are ready.
    fn specs(&self, scope: SkillScope<'_>) -> OfferedTools;

    /// Runs one skill. Blocks.
    fn call(&self, context: &Arc<CallContext>, name: &str, arguments: RawArguments<'_>) -> CallReport;
}

/// The production engine.
pub(super) struct Host {
    pub(super) skills: Arc<SkillHost>,
    /// File with the request options that models have refused.
    pub(super) learned: PathBuf,
}

impl Engine for Host {
    fn connect(
        &self,
        settings: &ProviderSettings,
        environment: &Variables,
        on_key: &KeyObserver,
    ) -> Result<Arc<dyn Provider>, Problem> {
        let on_key = Arc::clone(on_key);
        let options = tool_provider::Options {
            environment: environment.clone(),
            key_command: Some(crate::key_command(environment).observed(move |key| on_key(key))),
            learned: Some(self.learned.clone()),
            ..tool_provider::Options::default()
        };
        tool_analyst::connect_provider(settings, &options)
    }

    fn entries(&self, lock: Option<&dyn LockedSkills>) -> Vec<SkillEntry> {
        self.skills.entries_in(lock)
    }

    fn effects(&self, name: &str, lock: Option<&SkillLock>) -> Option<Vec<Effect>> {
        self.skills.effects(name, lock.map(|lock| lock as _))
    }

    fn differences(&self, lock: &SkillLock, root: &Path) -> Vec<LockDifference> {
        self.skills.differences(lock, root)
    }

    fn specs(&self, scope: SkillScope<'_>) -> OfferedTools {
        self.skills.specs(scope)
    }

    fn call(&self, context: &Arc<CallContext>, name: &str, arguments: RawArguments<'_>) -> CallReport {
        self.skills.call(context, name, arguments)
    }
}
