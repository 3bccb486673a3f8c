//! The contract's imports. The grant is checked here for each function; the modules below do the work.
//!
//! A function whose effect is not granted answers with the failure `denied`, which names the effect and what the user
//! can do about it; nothing else of it runs. Questions that the policy requires are asked by the work itself, which
//! knows exactly what would happen.

mod bulk;
pub mod consent;
mod repository;
mod search;
#[cfg(test)]
mod stopping;
mod symbols;
#[cfg(test)]
mod testing;

use std::sync::Arc;

use wasmtime::component::{HasSelf, Linker, Resource};

pub(crate) use consent::DISAGREED;

use crate::bindings::Skill;
use crate::bindings::tool::skill as wit;
use crate::budget::GuestStop;
use crate::services::Services;
use crate::store::StoreState;
use crate::{CallContext, Failure, ImportError, answer, log};
use tool_core::api::Effect;

/// Adds the contract's imports.
pub(crate) fn link_contract(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    Skill::add_to_linker::<StoreState, HasSelf<StoreState>>(linker, |state| state)
}

impl StoreState {
    /// Returns the session's context if the effect is granted, and the answer `denied` otherwise.
    fn import(&self, effect: Effect) -> Result<Arc<CallContext>, ImportError> {
        self.call.check()?;
        if let Some(recorder) = self.call.recorder() {
            recorder.effect(effect);
        }
        let granted = self.granted(effect).cloned();
        Ok(granted.ok_or_else(|| denied_failure(self.denial(effect)))?)
    }

    /// Fails if the call must end: its time is over, or its program did not start because too many others ran.
    fn check_run(&self, context: &CallContext) -> wasmtime::Result<()> {
        self.call.check()?;
        if context.turn.is_turned_away() {
            Err(GuestStop::Busy.into())
        } else {
            Ok(())
        }
    }

    /// The host's work for imports; fails for a component that describes itself.
    pub(crate) fn services(&self) -> wasmtime::Result<Arc<dyn Services>> {
        let grants = self.grants.as_ref();
        grants
            .map(|grants| Arc::clone(&grants.services))
            .ok_or_else(|| wasmtime::Error::msg("a component that describes itself has no services"))
    }
}

/// The answer of a function whose effect is not granted, made of a message and a hint.
pub fn denied_failure((message, hint): (String, String)) -> Failure {
    Failure::denied(message).with_hint(hint)
}

impl wit::types::Host for StoreState {
    fn convert_failure(&mut self, error: ImportError) -> wasmtime::Result<wit::types::Failure> {
        match error {
            ImportError::Failure(failure) => Ok(failure.into()),
            ImportError::End(error) => Err(error),
        }
    }
}

impl wit::log::Host for StoreState {
    fn write(&mut self, level: String, message: String) -> wasmtime::Result<()> {
        self.call.check()?;
        log::record_message(&self.call, &level, &message);
        Ok(())
    }
}

impl StoreState {
    /// The session's context, whatever the call may do; `None` while a component describes itself.
    fn context(&self) -> Option<Arc<CallContext>> {
        self.grants.as_ref().map(|grants| Arc::clone(&grants.context))
    }
}

impl wit::answer::Host for StoreState {
    fn cite(&mut self, citation: wit::answer::Citation) -> Result<(), ImportError> {
        self.call.check()?;
        Ok(self.answer.cite(&citation)?)
    }

    fn attach(&mut self, media: wit::answer::Media) -> Result<(), ImportError> {
        self.call.check()?;
        Ok(self.answer.attach(media)?)
    }

    fn text(&mut self, piece: String) -> wasmtime::Result<()> {
        self.call.check()?;
        let context = self.context();
        Ok(self.answer.add_text(&self.call, context.as_deref(), &piece)?)
    }

    fn progress(&mut self, done: u64, total: Option<u64>, message: String) -> wasmtime::Result<()> {
        self.call.check()?;
        answer::report_progress(&self.call, self.context().as_deref(), (done, total), &message);
        Ok(())
    }
}

impl wit::proposal::Host for StoreState {
    fn replace(&mut self, path: String, base_sha256: String) -> Result<(), ImportError> {
        self.import(Effect::WriteRepository)?;
        Ok(self.terms.replace(&self.call, &path, base_sha256)?)
    }

    fn rename(&mut self, path: String, new_path: String, base_sha256: String) -> Result<(), ImportError> {
        self.import(Effect::WriteRepository)?;
        Ok(self.terms.rename(&self.call, &path, &new_path, base_sha256)?)
    }

    fn set_executable(&mut self, path: String, executable: bool) -> Result<(), ImportError> {
        self.import(Effect::WriteRepository)?;
        Ok(self.terms.set_executable(&path, executable)?)
    }
}

impl wit::repository::Host for StoreState {
    fn list(&mut self, query: wit::repository::Query) -> Result<wit::repository::Page, ImportError> {
        let context = self.import(Effect::ReadRepository)?;
        let page = repository::list_page(&self.call, &context, &query);
        if let (Ok(_), Some(recorder)) = (&page, self.call.recorder()) {
            recorder.listed(&query.under, query.recursive);
        }
        if let Ok(page) = &page {
            repository::note_listed(&self.call, page);
            if let Ok(under) = repository::path_of(&query.under) {
                self.call.note_directory(&under);
            }
        }
        // A list that was cut short because the call's time is over is not an answer.
        self.call.check()?;
        Ok(page?)
    }

    fn count_not_listed(&mut self, under: String) -> Result<wit::repository::NotListed, ImportError> {
        let context = self.import(Effect::ReadRepository)?;
        let counted = repository::count_not_listed(&self.call, &context, &under);
        self.call.check()?;
        Ok(counted?)
    }

    fn is_generated(&mut self, path: String) -> Result<bool, ImportError> {
        let context = self.import(Effect::ReadRepository)?;
        let answer = repository::is_generated(&self.call, &context, &path);
        self.call.check()?;
        Ok(answer?)
    }

    fn shown(&mut self, path: String, sha256: String) -> wasmtime::Result<()> {
        match self.import(Effect::ReadRepository) {
            Ok(context) => repository::record_shown(&self.call, &context, &path, sha256),
            Err(ImportError::Failure(_)) => {}
            Err(ImportError::End(error)) => return Err(error),
        }
        Ok(())
    }
}

impl wit::bulk::Host for StoreState {
    fn open(&mut self, selection: wit::bulk::Selection) -> Result<Resource<wit::bulk::Reader>, ImportError> {
        let context = self.import(Effect::ReadRepository)?;
        let opened = bulk::SelectionReader::open(&self.call, &context, &selection);
        self.call.check()?;
        Ok(self.push(opened?).map_err(wasmtime::Error::from)?)
    }

    fn divide(&mut self, selection: wit::bulk::Selection, parts: u32) -> Result<Vec<String>, ImportError> {
        let context = self.import(Effect::ReadRepository)?;
        let starts = bulk::divide_selection(&self.call, &context, &selection, parts);
        self.call.check()?;
        Ok(starts?)
    }
}

impl wit::bulk::HostReader for StoreState {
    fn next(&mut self, reader: Resource<wit::bulk::Reader>) -> wasmtime::Result<wit::bulk::Batch> {
        let batch = self.entry_mut::<bulk::SelectionReader, _>(&reader)?.next()?;
        self.count_read(batch.contents.len())?;
        Ok(batch)
    }

    fn drop(&mut self, reader: Resource<wit::bulk::Reader>) -> wasmtime::Result<()> {
        self.remove::<bulk::SelectionReader, _>(&reader)?;
        Ok(())
    }
}

impl wit::symbols::Host for StoreState {
    fn definitions(&mut self, query: wit::symbols::Query) -> Result<wit::symbols::DefinitionPage, ImportError> {
        let context = self.import(Effect::ReadRepository)?;
        let (services, call) = (self.services()?, Arc::clone(&self.call));
        let page = symbols::find_definitions(&*services, &call, &context, query);
        self.check_symbols(&page, |page| symbols::definition_bytes(&page.definitions))?;
        Ok(page?)
    }

    fn references(&mut self, query: wit::symbols::Query) -> Result<wit::symbols::ReferencePage, ImportError> {
        let context = self.import(Effect::ReadRepository)?;
        let (services, call) = (self.services()?, Arc::clone(&self.call));
        let page = symbols::find_references(&*services, &call, &context, query);
        self.check_symbols(&page, |page| symbols::reference_bytes(&page.references))?;
        Ok(page?)
    }

    fn outline(&mut self, path: String) -> Result<Vec<wit::symbols::Definition>, ImportError> {
        let context = self.import(Effect::ReadRepository)?;
        let (services, call) = (self.services()?, Arc::clone(&self.call));
        let outline = symbols::outline_file(&*services, &call, &context, &path);
        self.check_symbols(&outline, |outline| symbols::definition_bytes(outline))?;
        Ok(outline?)
    }

    fn enclosing(&mut self, path: String, line: u32) -> Result<Option<wit::symbols::Definition>, ImportError> {
        let outline = wit::symbols::Host::outline(self, path)?;
        Ok(symbols::find_innermost(outline, line))
    }

    fn uses(
        &mut self,
        path: String,
        first_line: u32,
        last_line: u32,
    ) -> Result<Vec<wit::symbols::Reference>, ImportError> {
        let context = self.import(Effect::ReadRepository)?;
        let (services, call) = (self.services()?, Arc::clone(&self.call));
        let uses = symbols::list_uses(&*services, &call, &context, &path, first_line..=last_line);
        self.check_symbols(&uses, |uses| symbols::reference_bytes(uses))?;
        Ok(uses?)
    }
}

impl StoreState {
    /// Counts what an answer about symbols shows of files. An answer that was cut short because the call's time is over
    /// is not an answer.
    fn check_symbols<T>(&self, answer: &Result<T, Failure>, bytes: impl Fn(&T) -> usize) -> wasmtime::Result<()> {
        self.call.check()?;
        self.count_read(answer.as_ref().map_or(0, bytes))?;
        Ok(())
    }
}

impl wit::search::Host for StoreState {
    fn candidates(&mut self, query: wit::search::Query) -> Result<wit::search::Page, ImportError> {
        let context = self.import(Effect::ReadRepository)?;
        let services = self.services()?;
        let page = search::list_candidates(&*services, &self.call, &context, &query);
        self.call.check()?;
        Ok(page?)
    }

    fn open(
        &mut self,
        selection: wit::search::NarrowedSelection,
    ) -> Result<Resource<wit::search::Reader>, ImportError> {
        let context = self.import(Effect::ReadRepository)?;
        let services = self.services()?;
        let opened = search::NarrowedReader::open(&*services, &self.call, &context, &selection);
        self.call.check()?;
        Ok(self.push(opened?).map_err(wasmtime::Error::from)?)
    }
}

impl wit::search::HostReader for StoreState {
    fn next(&mut self, reader: Resource<wit::search::Reader>) -> wasmtime::Result<wit::search::NarrowedBatch> {
        let batch = self.entry_mut::<search::NarrowedReader, _>(&reader)?.next()?;
        self.count_read(batch.files.contents.len())?;
        Ok(batch)
    }

    fn drop(&mut self, reader: Resource<wit::search::Reader>) -> wasmtime::Result<()> {
        self.remove::<search::NarrowedReader, _>(&reader)?;
        Ok(())
    }
}

impl wit::git_read::Host for StoreState {
    fn changes(&mut self, query: wit::git_read::DiffQuery) -> Result<wit::git_read::Diff, ImportError> {
        let context = self.import(Effect::ReadGit)?;
        Ok(self.services()?.read_changes(&self.call, &context, &query)?)
    }
}

impl wit::git_history::Host for StoreState {
    fn log(&mut self, query: wit::git_history::LogQuery) -> Result<wit::git_history::LogPage, ImportError> {
        let context = self.import(Effect::ReadGit)?;
        Ok(self.services()?.read_log(&self.call, &context, &query)?)
    }

    fn show(&mut self, query: wit::git_history::ShowQuery) -> Result<wit::git_history::CommitDiff, ImportError> {
        let context = self.import(Effect::ReadGit)?;
        Ok(self.services()?.show_commit(&self.call, &context, &query)?)
    }

    fn blame(&mut self, query: wit::git_history::BlameQuery) -> Result<wit::git_history::BlamePage, ImportError> {
        let context = self.import(Effect::ReadGit)?;
        Ok(self.services()?.blame_lines(&self.call, &context, &query)?)
    }
}

impl wit::git_commit::Host for StoreState {
    fn create(
        &mut self,
        message: String,
        paths: Vec<String>,
        all: bool,
    ) -> Result<wit::git_commit::Commit, ImportError> {
        let context = self.import(Effect::CommitGit)?;
        Ok(self
            .services()?
            .create_commit(&self.call, &context, &message, &paths, all)?)
    }
}

impl wit::tests::Host for StoreState {
    fn run(&mut self, request: wit::tests::Request) -> Result<Vec<wit::tests::Suite>, ImportError> {
        let context = self.import(Effect::RunProcess)?;
        let suites = self.services()?.run_tests(&self.call, &context, request);
        self.check_run(&context)?;
        suites
    }
}

impl wit::packages::Host for StoreState {
    fn install(&mut self, request: wit::packages::Request) -> Result<wit::packages::Report, ImportError> {
        let context = self.import(Effect::Install)?;
        let report = self.services()?.install_packages(&self.call, &context, &request);
        self.check_run(&context)?;
        report
    }
}
