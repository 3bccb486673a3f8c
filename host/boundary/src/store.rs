//! The store of one guest: its rights, its handles, and the limits that wasmtime enforces.
//!
//! `wasi`, `guard` and `imports` are implemented for [`StoreState`]: they decide what the guest can see and do.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use wasmtime::component::{Resource, ResourceTable, ResourceTableError};
use wasmtime::{Engine, ResourceLimiter, Store, UpdateDeadline};
use wasmtime_wasi::sockets::WasiSocketsCtx;

use crate::answer::AnswerParts;
use crate::budget::{CallBudget, GuestStop, deny_effect};
use crate::policy::Decision;
use crate::proposal::ProposalTerms;
use crate::services::Services;
use crate::staging::CallStage;
use crate::{CallContext, CallError};
use tool_core::api::{Effect, ErrorKind};

/// Bytes at the end of standard error that are kept to explain a crash. A panic's message is one or two lines.
pub(crate) const STDERR_TAIL_BYTES: usize = 2 * 1024;

/// Hint for an effect that `--allow` cannot grant.
const UNDECLARED: &str = "only what the skill's own description declares can be granted";

/// Facts about the component of a call.
#[derive(Debug, Default)]
pub(crate) struct GuestComponent {
    pub(crate) name: String,
    /// JSON Schema of its settings.
    pub(crate) configuration: Option<Value>,
}

/// Rights of a call: the session's context, and the effects that are declared and not denied.
#[derive(Clone)]
pub(crate) struct CallGrants {
    pub(crate) context: Arc<CallContext>,
    pub(crate) services: Arc<dyn Services>,
    pub(crate) component: Arc<GuestComponent>,
    declared: Vec<Effect>,
    /// Declared effects that the repository's lock file, or what the user has pinned, withholds.
    withheld: Vec<Effect>,
    granted: Vec<Effect>,
}

impl CallGrants {
    /// Rights of a skill. Only declared effects that are in `within` count.
    pub(crate) fn new(
        context: &Arc<CallContext>,
        services: &Arc<dyn Services>,
        declared: &[Effect],
        within: &[Effect],
    ) -> Self {
        let (counted, withheld): (Vec<_>, _) = declared.iter().partition(|effect| within.contains(effect));
        let granted = counted
            .into_iter()
            .filter(|&effect| context.decide(effect) != Decision::Deny)
            .collect();
        Self {
            context: Arc::clone(context),
            services: Arc::clone(services),
            component: Arc::default(),
            declared: declared.to_vec(),
            withheld,
            granted,
        }
    }

    /// The same rights, for a function of this component.
    pub(crate) fn of(self, component: GuestComponent) -> Self {
        Self {
            component: Arc::new(component),
            ..self
        }
    }

    /// Returns why an effect is denied, and what the user can do about it.
    pub(crate) fn denial(&self, effect: Effect) -> (String, String) {
        let message = || format!("The effect `{effect}` is not granted here.");
        if !self.declares(effect) {
            return (message(), UNDECLARED.to_owned());
        }
        if self.withheld.contains(&effect) {
            (
                message(),
                "the repository's `skills.lock`, or what the user has pinned, withholds it".to_owned(),
            )
        } else {
            self.context.denial(effect)
        }
    }

    /// The denial as the error of a call.
    pub(crate) fn denied(&self, skill: &str, effect: Effect) -> CallError {
        deny_effect(skill, effect, self.denial(effect).1)
    }

    pub(crate) fn declares(&self, effect: Effect) -> bool {
        self.declared.contains(&effect)
    }

    pub(crate) fn declared(&self) -> &[Effect] {
        &self.declared
    }

    pub(crate) fn has(&self, effect: Effect) -> bool {
        self.granted.contains(&effect)
    }

    pub(crate) fn granted(&self) -> &[Effect] {
        &self.granted
    }
}

/// The data of one store.
pub(crate) struct StoreState {
    pub(crate) call: Arc<CallBudget>,
    /// Absent while a component describes itself: every capability is denied, and clock and random numbers are fixed.
    pub(crate) grants: Option<CallGrants>,
    pub(crate) table: ResourceTable,
    pub(crate) sockets: WasiSocketsCtx,
    pub(crate) stage: CallStage,
    /// Parts of the answer so far.
    pub(crate) answer: AnswerParts,
    /// Claims about files that the proposal changes.
    pub(crate) terms: ProposalTerms,
    pub(crate) stderr: Vec<u8>,
    /// Clock of a guest without grants, as in `describe()`.
    pub(crate) told: Duration,
    /// State of the random numbers of a guest without grants.
    pub(crate) dealt: u64,
    memory: u64,
}

impl StoreState {
    fn new(call: &Arc<CallBudget>, grants: Option<CallGrants>) -> Self {
        let mut table = ResourceTable::new();
        // The entries of handles are in the host's memory, which `memory_growing` does not see.
        table.set_max_capacity(call.limits.handles);
        let repository = grants.as_ref().map(|grants| &grants.context.repository);
        let stage = CallStage::below_home(repository.and_then(|repository| repository.state_directory()));
        Self {
            call: Arc::clone(call),
            grants,
            table,
            sockets: socket_rights(),
            stage,
            answer: AnswerParts::default(),
            terms: ProposalTerms::default(),
            stderr: Vec::new(),
            told: Duration::ZERO,
            dealt: 0,
            memory: 0,
        }
    }

    /// Returns why an effect is denied, and what the user can do about it.
    pub(crate) fn denial(&self, effect: Effect) -> (String, String) {
        match &self.grants {
            Some(grants) => grants.denial(effect),
            None => (
                format!("The effect `{effect}` is not granted here."),
                "what describes itself has no effects".to_owned(),
            ),
        }
    }

    /// Ends a guest that uses an effect without a grant.
    pub(crate) fn stop(&self, effect: Effect) -> GuestStop {
        let (_, hint) = self.denial(effect);
        GuestStop::Denied {
            effect: Box::new(effect),
            hint,
        }
    }

    pub(crate) fn granted(&self, effect: Effect) -> Option<&Arc<CallContext>> {
        let grants = self.grants.as_ref()?;
        grants.has(effect).then_some(&grants.context)
    }

    /// Stores a value behind a handle whose type the interface prescribes.
    ///
    /// The interface's own types (`Descriptor`, `DynInputStream`, …) serve as names only. No value of these types is
    /// ever made, so every handle of a guest leads to a value of this crate.
    pub(crate) fn push<T: Send + 'static, R: 'static>(&mut self, entry: T) -> Result<Resource<R>, ResourceTableError> {
        Ok(Resource::new_own(self.table.push(entry)?.rep()))
    }

    pub(crate) fn entry<T: 'static, R: 'static>(&self, handle: &Resource<R>) -> Result<&T, ResourceTableError> {
        self.table.get(&Resource::new_borrow(handle.rep()))
    }

    pub(crate) fn entry_mut<T: 'static, R: 'static>(
        &mut self,
        handle: &Resource<R>,
    ) -> Result<&mut T, ResourceTableError> {
        self.table.get_mut(&Resource::new_borrow(handle.rep()))
    }

    pub(crate) fn remove<T: 'static, R: 'static>(&mut self, handle: &Resource<R>) -> Result<T, ResourceTableError> {
        self.table.delete(Resource::new_own(handle.rep()))
    }
}

impl Drop for StoreState {
    fn drop(&mut self) {
        self.call.release_memory(self.memory);
    }
}

impl ResourceLimiter for StoreState {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current) as u64;
        let granted = self.call.grow_memory(more);
        // Recorded for `drop`: the budget belongs to the call and is shared by all of its stores.
        if granted {
            self.memory += more;
        }
        // `false` makes `memory.grow` return -1, which a guest can handle. An error would trap.
        Ok(granted)
    }

    fn table_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let max = self.call.limits.table_elements;
        let more = desired.saturating_sub(current) as u64;
        self.call.tables.add(more, max, || {
            GuestStop::limit(format!("{max} table elements"), ErrorKind::TablesLimit)
        })?;
        Ok(true)
    }

    fn instances(&self) -> usize {
        self.call.limits.instances
    }

    fn tables(&self) -> usize {
        self.call.limits.instances
    }

    fn memories(&self) -> usize {
        self.call.limits.instances
    }
}

/// A context in which no socket may be bound or connected.
fn socket_rights() -> WasiSocketsCtx {
    WasiSocketsCtx::default()
}

/// A fresh store for one instance of a call.
pub(crate) fn open_store(engine: &Engine, call: &Arc<CallBudget>, grants: Option<CallGrants>) -> Store<StoreState> {
    let mut store = Store::new(engine, StoreState::new(call, grants));
    store.limiter(|state| state);
    // A host call copies the guest's lists and texts into the host's memory, which the limiter does not count.
    store.set_hostcall_fuel(call.limits.host_call_bytes);
    store.set_max_component_handles(call.limits.handles);
    // Every tick of the epoch interrupts the guest, and the callback decides whether it goes on.
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|context| {
        context.data().call.check()?;
        Ok(UpdateDeadline::Continue(1))
    });
    store
}

/// Returns the guest's last output to standard error, for the message about its end.
pub(crate) fn last_words(store: &Store<StoreState>) -> String {
    String::from_utf8_lossy(&store.data().stderr).into_owned()
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::policy::{EffectCause, Policy};
    use crate::{Limits, NoServices};
    use tool_core::api::PolicyRequest;
    use tool_repository::{Options, Repository};

    fn call(limits: Limits) -> Arc<CallBudget> {
        CallBudget::new("demo", limits, &CancellationToken::new())
    }

    #[test]
    fn a_denial_says_who_keeps_the_effect_back() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let repository = Repository::open(folder.path(), &Options::default()).expect("it is a folder");
        let policy = Policy::new(EffectCause::SkillCall, &PolicyRequest::default()).expect("it is valid");
        let context = Arc::new(CallContext::unattended(repository, policy));
        let services: Arc<dyn Services> = Arc::new(NoServices);
        let declared = [Effect::CommitGit, Effect::Install];
        let grants = CallGrants::new(&context, &services, &declared, &[Effect::CommitGit]);
        for (effect, hint) in [
            (Effect::CommitGit, "the user can grant it with `--allow commit-git`"),
            (
                Effect::Install,
                "the repository's `skills.lock`, or what the user has pinned, withholds it",
            ),
            (Effect::ReadGit, UNDECLARED),
        ] {
            let message = format!("The effect `{effect}` is not granted here.");
            assert_eq!(grants.denial(effect), (message, hint.to_owned()));
        }
        let (_, hint) = StoreState::new(&call(Limits::default()), None).denial(Effect::ReadGit);
        assert_eq!(hint, "what describes itself has no effects");
    }

    #[test]
    fn of_what_a_guest_says_before_a_crash_the_end_is_kept() {
        let mut state = StoreState::new(&call(Limits::default()), None);
        for _ in 0..100 {
            state.say(&[b'x'; 1_000], true);
        }
        state.say(b"the end", true);
        assert_eq!(state.stderr.len(), STDERR_TAIL_BYTES);
        assert!(state.stderr.ends_with(b"the end"));
    }

    #[test]
    fn a_guest_gets_as_many_instances_memories_and_tables_as_its_limit_allows() {
        let limits = Limits {
            instances: 7,
            ..Limits::default()
        };
        let state = StoreState::new(&call(limits), None);
        assert_eq!([state.instances(), state.memories(), state.tables()], [7; 3]);
    }

    #[test]
    fn memory_of_a_guest_that_ended_is_free_again() {
        let limits = Limits {
            memory_bytes: 100,
            ..Limits::default()
        };
        let call = call(limits);
        let grow = |state: &mut StoreState| state.memory_growing(0, 80, None).expect("it is no trap");
        let mut first = StoreState::new(&call, None);
        assert!(grow(&mut first) && !grow(&mut StoreState::new(&call, None)));
        drop(first);
        assert!(grow(&mut StoreState::new(&call, None)));
    }
}
