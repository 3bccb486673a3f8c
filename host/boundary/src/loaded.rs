//! A component in memory, linked and ready to be instantiated for every call.
//!
//! Calls count references in what they share: the code, and the slots of a pool. Two processors that update one counter
//! wait for each other, which costs half of the second one's gain on short calls. So each of the runtime's pools has
//! its own copy of a small component, made when the first call comes from its processors.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use wasmtime::Store;
use wasmtime::component::{Component, ComponentExportIndex, Instance, InstancePre, Linker};

use super::answer::AnswerParts;
use super::bindings::SkillIndices;
use super::bindings::tool::skill::types::{Descriptor, Failure, Outcome};
use super::budget::CallBudget;
use super::engine::{NativeComponent, Runtime};
use super::proposal::ProposalTerms;
use super::store::{self, CallGrants, StoreState};
use super::{CallError, guard, http, imports, skill_settings, wasi};
use tool_sandbox::scratch::ScratchFolder;

/// Largest compiled code that is copied, in bytes: built-in components have up to 2.5 MiB. A component with an
/// interpreter has tens of MiB, and its calls are so long that a copy would save little.
const COPIED_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Everything that an instance leaves besides its result.
#[derive(Default)]
pub(crate) struct Leftovers {
    pub(crate) stage: Option<ScratchFolder>,
    pub(crate) answer: AnswerParts,
    pub(crate) terms: ProposalTerms,
}

/// Result of an instance, with what it left.
type WithLeftovers<R> = (R, Leftovers);

type Split = (Result<Vec<String>, Failure>,);
type Merge = (Result<Outcome, Failure>,);

/// A component with its copies.
pub struct LoadedComponent {
    runtime: &'static Runtime,
    native: NativeComponent,
    first: LinkedComponent,
    /// A copy for each further pool; `None` if the copy could not be made.
    others: Box<[OnceLock<Option<LinkedComponent>>]>,
}

impl LoadedComponent {
    /// Links a component once.
    ///
    /// # Errors
    ///
    /// Why it does not link, as the end of a sentence.
    pub fn new(runtime: &'static Runtime, native: NativeComponent) -> Result<Self, String> {
        let component = &native.component;
        let first = LinkedComponent::new(component)?;
        let others = match component.image_range() {
            code if code.end.addr() - code.start.addr() > COPIED_BYTES_MAX => 0,
            _ => runtime.pools_beside(component.engine()),
        };
        Ok(Self {
            runtime,
            native,
            first,
            others: std::iter::repeat_with(OnceLock::new).take(others).collect(),
        })
    }

    /// The copy for the processor that runs this thread.
    fn here(&self) -> &LinkedComponent {
        self.in_pool(self.runtime.pool_here())
    }

    fn in_pool(&self, pool: usize) -> &LinkedComponent {
        let slot = pool.checked_sub(1).and_then(|other| self.others.get(other));
        let copy = || LinkedComponent::new(&self.runtime.copy(&self.native, pool).ok()?).ok();
        let copy = slot.and_then(|slot| slot.get_or_init(copy).as_ref());
        copy.unwrap_or(&self.first)
    }

    /// True if the component can divide its work.
    pub(crate) fn is_sharded(&self) -> bool {
        self.first.sharded.is_some()
    }

    /// Runs the work in one instance.
    pub(crate) fn call(
        &self,
        call: &Arc<CallBudget>,
        grants: CallGrants,
        name: &str,
        arguments: &str,
    ) -> Result<WithLeftovers<Result<Outcome, Failure>>, CallError> {
        let linked = self.here();
        linked.enter(call, Some(grants), |store, instance| {
            let skill = linked.handler.load(&mut *store, instance)?;
            skill.tool_skill_handler().call_call(store, name, arguments)
        })
    }

    /// Divides the work into at most `parts` arguments. Requires [`LoadedComponent::is_sharded`].
    pub(crate) fn split(
        &self,
        call: &Arc<CallBudget>,
        grants: CallGrants,
        name: &str,
        arguments: &str,
        parts: u32,
    ) -> Result<Result<Vec<String>, Failure>, CallError> {
        let linked = self.here();
        let split = linked.enter(call, Some(grants), |store, instance| {
            let split = instance.get_typed_func::<(&str, &str, u32), Split>(&mut *store, &linked.sharded()?.split)?;
            Ok(split.call(store, (name, arguments, parts))?.0)
        });
        split.map(|(parts, _)| parts)
    }

    /// Joins the outcomes of the parts. Requires [`LoadedComponent::is_sharded`].
    pub(crate) fn merge(
        &self,
        call: &Arc<CallBudget>,
        grants: CallGrants,
        name: &str,
        arguments: &str,
        outcomes: &[Outcome],
    ) -> Result<WithLeftovers<Result<Outcome, Failure>>, CallError> {
        let linked = self.here();
        linked.enter(call, Some(grants), |store, instance| {
            let merge = &linked.sharded()?.merge;
            let merge = instance.get_typed_func::<(&str, &str, &[Outcome]), Merge>(&mut *store, merge)?;
            Ok(merge.call(store, (name, arguments, outcomes))?.0)
        })
    }
}

/// A component that is linked for one engine.
pub(crate) struct LinkedComponent {
    instance: InstancePre<StoreState>,
    handler: SkillIndices,
    sharded: Option<Sharded>,
}

#[derive(Clone, Copy)]
struct Sharded {
    split: ComponentExportIndex,
    merge: ComponentExportIndex,
}

impl LinkedComponent {
    /// Links a component. The error is the end of a sentence.
    pub(crate) fn new(component: &Component) -> Result<Self, String> {
        Self::link(component).map_err(|error| format!("it does not link: {error:#}"))
    }

    fn link(component: &Component) -> wasmtime::Result<Self> {
        let instance = build_linker(component)?.instantiate_pre(component)?;
        let interface = component.get_export_index(None, "tool:skill/sharded@1.0.0");
        let sharded = interface.and_then(|interface| {
            Some(Sharded {
                split: component.get_export_index(Some(&interface), "split")?,
                merge: component.get_export_index(Some(&interface), "merge")?,
            })
        });
        Ok(Self {
            handler: SkillIndices::new(&instance)?,
            sharded,
            instance,
        })
    }

    /// Asks the component to describe itself, with every capability denied.
    pub(crate) fn describe(&self, call: &Arc<CallBudget>) -> Result<Descriptor, CallError> {
        let described = self.enter(call, None, |store, instance| {
            let skill = self.handler.load(&mut *store, instance)?;
            skill.tool_skill_handler().call_describe(store)
        });
        described.map(|(descriptor, _)| descriptor)
    }

    fn sharded(&self) -> wasmtime::Result<Sharded> {
        self.sharded
            .ok_or_else(|| wasmtime::Error::msg("it does not divide its work"))
    }

    /// Runs `work` in a fresh store, and returns what it left in its stage.
    fn enter<R>(
        &self,
        call: &Arc<CallBudget>,
        grants: Option<CallGrants>,
        work: impl FnOnce(&mut Store<StoreState>, &Instance) -> wasmtime::Result<R>,
    ) -> Result<WithLeftovers<R>, CallError> {
        let mut store = store::open_store(self.instance.engine(), call, grants);
        let result = self
            .instance
            .instantiate(&mut store)
            .and_then(|instance| work(&mut store, &instance));
        if store.data().stage.is_full() {
            call.stage_full.store(true, Ordering::Relaxed);
        }
        match result {
            Ok(result) => {
                let state = store.data_mut();
                let leftovers = Leftovers {
                    stage: state.stage.take(),
                    answer: std::mem::take(&mut state.answer),
                    terms: std::mem::take(&mut state.terms),
                };
                Ok((result, leftovers))
            }
            Err(error) => Err(call.explain(&error, &store::last_words(&store))),
        }
    }
}

/// Makes a linker for a component. It is not kept: linking is rare, and a linker takes memory.
///
/// Interfaces that reach outside are linked only for a component that imports them.
fn build_linker(component: &Component) -> wasmtime::Result<Linker<StoreState>> {
    let engine = component.engine();
    let mut linker = Linker::new(engine);
    wasi::link_wasi(&mut linker)?;
    guard::link_filesystem(&mut linker)?;
    imports::link_contract(&mut linker)?;
    let component = component.component_type();
    let imports_from = |package: &str| component.imports(engine).any(|(name, _)| name.starts_with(package));
    if imports_from("wasi:http/") {
        http::link_http(&mut linker)?;
    }
    if imports_from("wasi:config/") {
        skill_settings::link_config(&mut linker)?;
    }
    if imports_from("wasi:keyvalue/") {
        skill_settings::link_keyvalue(&mut linker)?;
    }
    Ok(linker)
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;
    use wasmtime::Engine;

    use super::super::Limits;
    use super::super::engine::precompile_portable;
    use super::*;

    #[test]
    fn each_pool_has_a_copy_of_its_own_and_all_are_the_same_component() {
        let runtime = Runtime::global().expect("the engine starts");
        let own = std::env::current_exe().expect("a test has a binary");
        let target = own.ancestors().nth(3).expect("it lies in the target folder");
        let wasm = std::fs::read(target.join("wasm32-wasip2/skill/echo.wasm")).expect("scripts/build made it");
        let code = precompile_portable(&wasm).expect("it compiles");
        let component = runtime.load(&code).expect("it was compiled here");
        let loaded = LoadedComponent::new(runtime, component).expect("it links");
        let engines: Vec<&Engine> = (0..=loaded.others.len())
            .map(|pool| {
                let linked = loaded.in_pool(pool);
                let call = CallBudget::new("describe", Limits::default(), &CancellationToken::new());
                runtime.watch(&call);
                let described = linked.describe(&call).expect("it says what it is");
                assert_eq!(described.name, "echo");
                linked.instance.engine()
            })
            .collect();
        for (at, engine) in engines.iter().enumerate() {
            let is_another = |other: &&Engine| !Engine::same(engine, other);
            assert!(engines[at + 1..].iter().all(is_another), "{at}");
        }
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        assert!(processors == 1 || engines.len() > 1, "no copy was made");
        // A pool that is not there is the first one.
        assert!(Engine::same(loaded.in_pool(usize::MAX).instance.engine(), engines[0]));
    }
}
