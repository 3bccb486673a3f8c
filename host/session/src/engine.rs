//! The two things that a session is given by the rest of the engine, so that tests can give it others: what answers,
//! and what runs skills.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tool_config::ProviderSettings;
use tool_core::api::{Effect, Problem, SkillEntry};
use tool_provider::Provider;
use tool_skill::lock::{Difference, Lock};
use tool_skill::{CallContext, CallReport, LockedSkills, OfferedTools, RawArguments, SkillHost, SkillScope};

/// Environment variables by name.
pub type Variables = BTreeMap<String, String>;

/// Sees keys that a program has printed, so that they are kept out of everything else.
pub type KeyObserver = Arc<dyn Fn(&str) + Send + Sync>;

/// What answers, and what runs skills.
pub trait Engine: Send + Sync + 'static {
    /// Makes the enabled provider ready for requests. `environment` names its proxies; `on_key` sees every key that a
    /// program prints for it.
    fn connect(
        &self,
        settings: &ProviderSettings,
        environment: &Variables,
        on_key: &KeyObserver,
    ) -> Result<Arc<dyn Provider>, Problem>;

    /// All skills, in the versions of a repository's lock file.
    fn entries(&self, lock: Option<&dyn LockedSkills>) -> Vec<SkillEntry>;

    /// Returns the effects that a skill declares, or nothing if no skill has that name.
    fn effects(&self, name: &str, lock: Option<&Lock>) -> Option<Vec<Effect>>;

    /// Every way in which the skills differ from a repository's lock file.
    fn differences(&self, lock: &Lock, root: &Path) -> Vec<Difference>;

    /// Specifications of the ready skills, for a model.
    fn specs(&self, scope: SkillScope<'_>) -> OfferedTools;

    /// Runs one skill. Blocks.
    fn call(&self, context: &Arc<CallContext>, name: &str, arguments: RawArguments<'_>) -> CallReport;
}

/// The real one.
pub(super) struct Host {
    pub(super) skills: Arc<SkillHost>,
    /// File that keeps what models have refused.
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
        tool_analyst::connect(settings, &options)
    }

    fn entries(&self, lock: Option<&dyn LockedSkills>) -> Vec<SkillEntry> {
        self.skills.entries_in(lock)
    }

    fn effects(&self, name: &str, lock: Option<&Lock>) -> Option<Vec<Effect>> {
        self.skills.effects(name, lock.map(|lock| lock as _))
    }

    fn differences(&self, lock: &Lock, root: &Path) -> Vec<Difference> {
        self.skills.differences(lock, root)
    }

    fn specs(&self, scope: SkillScope<'_>) -> OfferedTools {
        self.skills.specs(scope)
    }

    fn call(&self, context: &Arc<CallContext>, name: &str, arguments: RawArguments<'_>) -> CallReport {
        self.skills.call(context, name, arguments)
    }
}
