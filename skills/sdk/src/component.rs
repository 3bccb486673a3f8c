//! The component side of the crate: the imports as a [`Host`], and the functions that `export_skill!` calls.

use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::path::Path;

use crate::{self as sdk, Handler, Host, Sharded, exchange};
use bindings::tool::skill::{
    answer, bulk, git_commit, git_history, git_read, log, packages, proposal, repository, search, symbols, tests, types,
};
use bindings::wasi::config::store as settings;
use bindings::wasi::keyvalue::store as values;

/// Bindings of the imports. The bindings of every skill refer to these types.
#[allow(
    missing_docs,
    unused_qualifications,
    reason = "generated from `wit/skill.wit`, which documents it"
)]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../../wit",
        inline: "
            package tool:skill-sdk;
            world imports {
                import tool:skill/types@1.0.0;
                import tool:skill/log@1.0.0;
                import tool:skill/answer@1.0.0;
                import tool:skill/proposal@1.0.0;
                import tool:skill/repository@1.0.0;
                import tool:skill/bulk@1.0.0;
                import tool:skill/symbols@1.0.0;
                import tool:skill/search@1.0.0;
                import tool:skill/git-read@1.0.0;
                import tool:skill/git-history@1.0.0;
                import tool:skill/git-commit@1.0.0;
                import tool:skill/tests@1.0.0;
                import tool:skill/packages@1.0.0;
                import wasi:http/outgoing-handler@0.2.12;
                import wasi:config/store@0.2.0-rc.1;
                import wasi:keyvalue/store@0.2.0-draft;
            }
        ",
        world: "tool:skill-sdk/imports",
        generate_all,
    });
}

/// The imports that the effects of the skill `S` cover.
///
/// The other imports must not appear in the machine code: the component would import them, and the host would refuse
/// to load it. Every branch on [`covers`] is decided at compile time, so the linker drops the imports behind a dead
/// branch.
struct Component<S>(PhantomData<S>);

const fn covers<S: Handler>(effect: &str) -> bool {
    let mut at = 0;
    while at < S::EFFECTS.len() {
        if same(S::EFFECTS[at].as_bytes(), effect.as_bytes()) {
            return true;
        }
        at += 1;
    }
    false
}

/// True if the skill declares requests to any host.
const fn covers_requests<S: Handler>() -> bool {
    let mut at = 0;
    while at < S::EFFECTS.len() {
        let effect = S::EFFECTS[at].as_bytes();
        if starts_with(effect, b"http:") || starts_with(effect, b"http-write:") {
            return true;
        }
        at += 1;
    }
    false
}

/// `==` on slices is not available in constants.
const fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && starts_with(a, b)
}

const fn starts_with(text: &[u8], prefix: &[u8]) -> bool {
    let mut at = 0;
    while at < text.len() && at < prefix.len() && text[at] == prefix[at] {
        at += 1;
    }
    at == prefix.len()
}

fn undeclared<T>(effect: &str) -> Result<T, sdk::Failure> {
    let message = format!("this skill does not declare the effect `{effect}`");
    Err(sdk::Failure::new(sdk::code::UNAVAILABLE, message))
}

impl<S: Handler> Host for Component<S> {
    fn repo(&self) -> &Path {
        Path::new("/repo")
    }

    fn stage(&self) -> &Path {
        Path::new("/stage")
    }

    fn list_page(&self, query: &sdk::Query) -> Result<sdk::Page, sdk::Failure> {
        if const { !covers::<S>("read-repository") } {
            return undeclared("read-repository");
        }
        let page = repository::list(&repository::Query {
            under: query.under.clone(),
            recursive: query.recursive,
            globs: query.globs.clone(),
            after: query.after.clone(),
        })
        .map_err(failure_in)?;
        let entry = |entry: repository::Entry| sdk::Entry {
            path: entry.path,
            kind: match entry.kind.as_str() {
                "directory" => sdk::EntryKind::Directory,
                "symlink" => sdk::EntryKind::Symlink,
                _ => sdk::EntryKind::File,
            },
            size: entry.size,
        };
        Ok(sdk::Page {
            entries: page.entries.into_iter().map(entry).collect(),
            next: page.next,
            left_out: page.left_out,
        })
    }

    fn count_not_listed(&self, under: &str) -> Result<sdk::NotListed, sdk::Failure> {
        if const { !covers::<S>("read-repository") } {
            return undeclared("read-repository");
        }
        let counted = repository::count_not_listed(under).map_err(failure_in)?;
        Ok(sdk::NotListed {
            skipped: counted.skipped,
            skipped_named: counted.skipped_named,
            ignored: counted.ignored,
            not_utf8: counted.not_utf8,
            not_on_disk: counted.not_on_disk,
        })
    }

    fn is_generated(&self, path: &str) -> Result<bool, sdk::Failure> {
        if const { !covers::<S>("read-repository") } {
            return undeclared("read-repository");
        }
        repository::is_generated(path).map_err(failure_in)
    }

    fn read_files(&self, selection: &sdk::Selection, visit: &mut sdk::Visit<'_>) -> Result<(), sdk::Failure> {
        if const { !covers::<S>("read-repository") } {
            return undeclared("read-repository");
        }
        let reader = bulk::open(&selection_out(selection)).map_err(failure_in)?;
        loop {
            let batch = reader.next();
            if batch.files.is_empty() || visit_batch(&batch, visit).is_break() {
                return Ok(());
            }
        }
    }

    fn divide(&self, selection: &sdk::Selection, parts: u32) -> Result<Vec<String>, sdk::Failure> {
        if const { !covers::<S>("read-repository") } {
            return undeclared("read-repository");
        }
        bulk::divide(&selection_out(selection), parts).map_err(failure_in)
    }

    fn definitions(&self, query: &sdk::SymbolQuery) -> Result<sdk::SymbolPage<sdk::SymbolDefinition>, sdk::Failure> {
        if const { !covers::<S>("read-repository") } {
            return undeclared("read-repository");
        }
        let page = symbols::definitions(&query_out(query)).map_err(failure_in)?;
        Ok(sdk::SymbolPage {
            items: page.definitions.into_iter().map(definition_in).collect(),
            next: page.next,
        })
    }

    fn references(&self, query: &sdk::SymbolQuery) -> Result<sdk::SymbolPage<sdk::SymbolReference>, sdk::Failure> {
        if const { !covers::<S>("read-repository") } {
            return undeclared("read-repository");
        }
        let page = symbols::references(&query_out(query)).map_err(failure_in)?;
        Ok(sdk::SymbolPage {
            items: page.references.into_iter().map(reference_in).collect(),
            next: page.next,
        })
    }

    fn outline(&self, path: &str) -> Result<Vec<sdk::SymbolDefinition>, sdk::Failure> {
        if const { !covers::<S>("read-repository") } {
            return undeclared("read-repository");
        }
        let outline = symbols::outline(path).map_err(failure_in)?;
        Ok(outline.into_iter().map(definition_in).collect())
    }

    fn enclosing(&self, path: &str, line: u32) -> Result<Option<sdk::SymbolDefinition>, sdk::Failure> {
        if const { !covers::<S>("read-repository") } {
            return undeclared("read-repository");
        }
        let enclosing = symbols::enclosing(path, line).map_err(failure_in)?;
        Ok(enclosing.map(definition_in))
    }

    fn uses(&self, path: &str, first_line: u32, last_line: u32) -> Result<Vec<sdk::SymbolReference>, sdk::Failure> {
        if const { !covers::<S>("read-repository") } {
            return undeclared("read-repository");
        }
        let uses = symbols::uses(path, first_line, last_line).map_err(failure_in)?;
        Ok(uses.into_iter().map(reference_in).collect())
    }

    fn candidates(&self, query: &sdk::SearchQuery) -> Result<sdk::CandidatePage, sdk::Failure> {
        if const { !covers::<S>("read-repository") } {
            return undeclared("read-repository");
        }
        let page = search::candidates(&search::Query {
            kind: query.kind.clone(),
            pattern: query.pattern.clone(),
            ignore_case: query.ignore_case,
            under: query.under.clone(),
            globs: query.globs.clone(),
            after: query.after.clone(),
        })
        .map_err(failure_in)?;
        Ok(sdk::CandidatePage {
            paths: page.paths,
            narrowed: page.narrowed,
            next: page.next,
        })
    }

    fn read_matching(
        &self,
        selection: &sdk::Selection,
        narrowing: &sdk::Narrowing,
        visit: &mut sdk::VisitNarrowed<'_>,
    ) -> Result<(), sdk::Failure> {
        if const { !covers::<S>("read-repository") } {
            return undeclared("read-repository");
        }
        let pattern = |pattern: &sdk::SearchPattern| search::Pattern {
            kind: pattern.kind.clone(),
            text: pattern.text.clone(),
            ignore_case: pattern.ignore_case,
        };
        let reader = search::open(&search::NarrowedSelection {
            files: selection_out(selection),
            patterns: narrowing.patterns.iter().map(pattern).collect(),
            apart: narrowing.apart.clone(),
        })
        .map_err(failure_in)?;
        loop {
            let search::NarrowedBatch { files, left_out } = reader.next();
            let mut counts = left_out.iter().map(|counts| sdk::LeftOut {
                text: counts.text,
                text_apart: counts.text_apart,
                binary: counts.binary,
            });
            let mut tell = |visit: &mut sdk::VisitNarrowed<'_>| {
                let counts = counts.next().filter(|counts| *counts != sdk::LeftOut::default());
                counts.map_or(ControlFlow::Continue(()), |counts| {
                    visit(sdk::Narrowed::LeftOut(counts))
                })
            };
            let visited = visit_batch(&files, &mut |path, content| {
                tell(visit)?;
                visit(sdk::Narrowed::File(path, content))
            });
            if visited.is_break() || tell(visit).is_break() || files.files.is_empty() {
                return Ok(());
            }
        }
    }

    fn shown(&self, path: &str, content: &[u8]) {
        if const { !covers::<S>("read-repository") } {
            return;
        }
        repository::shown(path, &digest_of(content));
    }

    fn replace(&self, path: &str, base: &[u8]) -> Result<(), sdk::Failure> {
        if const { !covers::<S>("write-repository") } {
            return undeclared("write-repository");
        }
        proposal::replace(path, &digest_of(base)).map_err(failure_in)
    }

    fn rename(&self, path: &str, new_path: &str, base: &[u8]) -> Result<(), sdk::Failure> {
        if const { !covers::<S>("write-repository") } {
            return undeclared("write-repository");
        }
        proposal::rename(path, new_path, &digest_of(base)).map_err(failure_in)
    }

    fn set_executable(&self, path: &str, executable: bool) -> Result<(), sdk::Failure> {
        if const { !covers::<S>("write-repository") } {
            return undeclared("write-repository");
        }
        proposal::set_executable(path, executable).map_err(failure_in)
    }

    fn cite(&self, path: &str, line: Option<u32>) -> Result<(), sdk::Failure> {
        let citation = answer::Citation {
            path: path.to_owned(),
            line,
        };
        answer::cite(&citation).map_err(failure_in)
    }

    fn attach(&self, media: &sdk::Media) -> Result<(), sdk::Failure> {
        let media = answer::Media {
            media_type: media.media_type.clone(),
            alternative: media.alternative.clone(),
            content: media.content.clone(),
        };
        answer::attach(&media).map_err(failure_in)
    }

    fn say(&self, piece: &str) {
        answer::text(piece);
    }

    fn progress(&self, done: u64, total: Option<u64>, message: &str) {
        answer::progress(done, total, message);
    }

    fn git_changes(&self, query: &sdk::DiffQuery) -> Result<sdk::Diff, sdk::Failure> {
        if const { !covers::<S>("read-git") } {
            return undeclared("read-git");
        }
        let diff = git_read::changes(&git_read::DiffQuery {
            paths: query.paths.clone(),
            staged: query.staged,
            unstaged: query.unstaged,
            untracked: query.untracked,
            context_lines: query.context_lines,
        })
        .map_err(failure_in)?;
        let change = |change: git_read::FileChange| sdk::FileChange {
            path: change.path,
            old_path: change.old_path,
            area: change.area,
            status: change.status,
            patch: change.patch,
            added_lines: change.added_lines,
            removed_lines: change.removed_lines,
            binary: change.binary,
        };
        Ok(sdk::Diff {
            branch: diff.branch,
            changes: diff.changes.into_iter().map(change).collect(),
            truncated: diff.truncated,
        })
    }

    fn git_log(&self, query: &sdk::LogQuery) -> Result<sdk::LogPage, sdk::Failure> {
        if const { !covers::<S>("read-git") } {
            return undeclared("read-git");
        }
        let page = git_history::log(&git_history::LogQuery {
            revision: query.revision.clone(),
            paths: query.paths.clone(),
            count: query.count,
            after: query.after.clone(),
        })
        .map_err(failure_in)?;
        Ok(sdk::LogPage {
            commits: page.commits.into_iter().map(commit_in).collect(),
            next: page.next,
        })
    }

    fn git_show(&self, query: &sdk::ShowQuery) -> Result<sdk::CommitDiff, sdk::Failure> {
        if const { !covers::<S>("read-git") } {
            return undeclared("read-git");
        }
        let diff = git_history::show(&git_history::ShowQuery {
            revision: query.revision.clone(),
            paths: query.paths.clone(),
            context_lines: query.context_lines,
        })
        .map_err(failure_in)?;
        let change = |change: git_history::CommitChange| sdk::CommitChange {
            path: change.path,
            old_path: change.old_path,
            status: change.status,
            patch: change.patch,
            added_lines: change.added_lines,
            removed_lines: change.removed_lines,
            binary: change.binary,
        };
        Ok(sdk::CommitDiff {
            commit: commit_in(diff.commit),
            changes: diff.changes.into_iter().map(change).collect(),
            truncated: diff.truncated,
        })
    }

    fn git_blame(&self, query: &sdk::BlameQuery) -> Result<sdk::BlamePage, sdk::Failure> {
        if const { !covers::<S>("read-git") } {
            return undeclared("read-git");
        }
        let page = git_history::blame(&git_history::BlameQuery {
            path: query.path.clone(),
            revision: query.revision.clone(),
            first_line: query.first_line,
            line_count: query.line_count,
        })
        .map_err(failure_in)?;
        let hunk = |hunk: git_history::BlameHunk| sdk::BlameHunk {
            first_line: hunk.first_line,
            line_count: hunk.line_count,
            commit: hunk.commit,
            old_path: hunk.old_path,
        };
        Ok(sdk::BlamePage {
            content: page.content,
            lines_total: page.lines_total,
            hunks: page.hunks.into_iter().map(hunk).collect(),
            commits: page.commits.into_iter().map(commit_in).collect(),
        })
    }

    fn git_commit(&self, message: &str, paths: &[String], all: bool) -> Result<sdk::Commit, sdk::Failure> {
        if const { !covers::<S>("commit-git") } {
            return undeclared("commit-git");
        }
        let commit = git_commit::create(message, paths, all).map_err(failure_in)?;
        Ok(sdk::Commit {
            id: commit.id,
            branch: commit.branch,
            author: commit.author,
            files: commit.files,
        })
    }

    fn run_tests(&self, request: &sdk::TestRequest) -> Result<Vec<sdk::TestSuite>, sdk::Failure> {
        if const { !covers::<S>("run-process") } {
            return undeclared("run-process");
        }
        tests::run(&tests::Request {
            recipe: request.recipe.clone(),
            check: request.check.clone(),
            paths: request.paths.clone(),
            filter: request.filter.clone(),
            timeout_seconds: request.timeout_seconds,
        })
        .map(|suites| suites.into_iter().map(suite_in).collect())
        .map_err(failure_in)
    }

    fn install(&self, request: &sdk::InstallRequest) -> Result<sdk::RunReport, sdk::Failure> {
        if const { !covers::<S>("install") } {
            return undeclared("install");
        }
        packages::install(&packages::Request {
            recipe: request.recipe.clone(),
            names: request.names.clone(),
            dev: request.dev,
        })
        .map(report_in)
        .map_err(failure_in)
    }

    fn send_request(&self, request: &sdk::HttpRequest) -> Result<sdk::HttpResponse, sdk::Failure> {
        if const { !covers_requests::<S>() } {
            return undeclared("http:HOST");
        }
        exchange::send(request)
    }

    fn setting(&self, key: &str) -> Result<Option<String>, sdk::Failure> {
        if const { !covers::<S>("config") } {
            return undeclared("config");
        }
        settings::get(key).map_err(setting_failure)
    }

    fn settings(&self) -> Result<Vec<(String, String)>, sdk::Failure> {
        if const { !covers::<S>("config") } {
            return undeclared("config");
        }
        settings::get_all().map_err(setting_failure)
    }

    fn kept_value(&self, key: &str) -> Result<Option<Vec<u8>>, sdk::Failure> {
        if const { !covers::<S>("store") } {
            return undeclared("store");
        }
        bucket()?.get(key).map_err(value_failure)
    }

    fn keep_value(&self, key: &str, value: &[u8]) -> Result<(), sdk::Failure> {
        if const { !covers::<S>("store") } {
            return undeclared("store");
        }
        bucket()?.set(key, value).map_err(value_failure)
    }

    fn remove_value(&self, key: &str) -> Result<(), sdk::Failure> {
        if const { !covers::<S>("store") } {
            return undeclared("store");
        }
        bucket()?.delete(key).map_err(value_failure)
    }

    fn kept_keys(&self) -> Result<Vec<String>, sdk::Failure> {
        if const { !covers::<S>("store") } {
            return undeclared("store");
        }
        let bucket = bucket()?;
        let (mut keys, mut cursor) = (Vec::new(), None);
        loop {
            let page = bucket.list_keys(cursor).map_err(value_failure)?;
            keys.extend(page.keys);
            cursor = page.cursor;
            if cursor.is_none() {
                return Ok(keys);
            }
        }
    }

    fn log(&self, level: &str, message: &str) {
        log::write(level, message);
    }
}

fn setting_failure(error: settings::Error) -> sdk::Failure {
    let (settings::Error::Upstream(reason) | settings::Error::Io(reason)) = error;
    sdk::Failure::new(sdk::code::UNAVAILABLE, format!("the settings cannot be read: {reason}"))
}

/// The contract gives a skill one bucket for each repository.
fn bucket() -> Result<values::Bucket, sdk::Failure> {
    values::open("default").map_err(value_failure)
}

fn value_failure(error: values::Error) -> sdk::Failure {
    match error {
        values::Error::Other(reason) => sdk::Failure::failed(reason),
        error => sdk::Failure::failed(format!("the store answered {error:?}")),
    }
}

fn query_out(query: &sdk::SymbolQuery) -> symbols::Query {
    symbols::Query {
        name: query.name.clone(),
        under: query.under.clone(),
        after: query.after.clone(),
    }
}

fn definition_in(definition: symbols::Definition) -> sdk::SymbolDefinition {
    sdk::SymbolDefinition {
        path: definition.path,
        name: definition.name,
        container: definition.container,
        kind: definition.kind,
        line: definition.line,
        first_line: definition.first_line,
        last_line: definition.last_line,
        comment_line: definition.comment_line,
        signature: definition.signature,
    }
}

fn reference_in(reference: symbols::Reference) -> sdk::SymbolReference {
    sdk::SymbolReference {
        path: reference.path,
        name: reference.name,
        kind: reference.kind,
        line: reference.line,
        container: reference.container,
    }
}

fn commit_in(commit: git_history::Commit) -> sdk::LoggedCommit {
    sdk::LoggedCommit {
        id: commit.id,
        parents: commit.parents,
        author: commit.author,
        time: commit.time,
        offset_minutes: commit.offset_minutes,
        message: commit.message,
    }
}

fn digest_of(content: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(content);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn visit_batch(batch: &bulk::Batch, visit: &mut sdk::Visit<'_>) -> ControlFlow<()> {
    let (mut paths, mut contents) = (batch.paths.as_str(), batch.contents.as_slice());
    for file in &batch.files {
        let (path, content);
        (path, paths) = paths.split_at(file.path_bytes as usize);
        (content, contents) = contents.split_at(file.content_bytes as usize);
        let content = match file.left_out.as_deref() {
            None => sdk::Content::Whole(content),
            Some("large") => sdk::Content::Large,
            Some("binary") => sdk::Content::Binary,
            Some(_) => sdk::Content::Unreadable,
        };
        visit(path, content)?;
    }
    ControlFlow::Continue(())
}

fn selection_out(selection: &sdk::Selection) -> bulk::Selection {
    bulk::Selection {
        under: selection.under.clone(),
        globs: selection.globs.clone(),
        start: selection.start.clone(),
        end: selection.end.clone(),
        file_bytes_max: selection.file_bytes_max,
        text_only: selection.text_only,
    }
}

/// Describes a skill as one function of a component.
pub fn function<S: Handler>() -> types::Function {
    let descriptor = S::describe();
    types::Function {
        name: descriptor.name.to_owned(),
        description: descriptor.description.to_owned(),
        parameters: descriptor.parameters.to_string(),
        effects: S::EFFECTS.iter().map(|&effect| effect.to_owned()).collect(),
        metadata: S::metadata().to_json(),
    }
}

/// `descriptor.metadata` of a component with several functions.
pub fn component_metadata(metadata: &sdk::ComponentMetadata) -> Option<String> {
    metadata.to_json()
}

/// `handler.describe` of a component with one function.
pub fn describe<S: Handler>() -> types::Descriptor {
    let descriptor = S::describe();
    types::Descriptor {
        name: descriptor.name.to_owned(),
        version: descriptor.version.to_owned(),
        description: descriptor.description.to_owned(),
        functions: vec![function::<S>()],
        metadata: S::component_metadata().to_json(),
    }
}

/// The name of the function of a skill.
pub fn name<S: Handler>() -> &'static str {
    S::describe().name
}

/// The failure of a call to a function that the component does not have.
pub fn unknown(name: &str) -> types::Failure {
    failure_out(sdk::Failure::not_found(format!("this skill has no function `{name}`")))
}

/// `handler.call` for a skill.
pub fn call<S: Handler>(arguments: &str) -> Result<types::Outcome, types::Failure> {
    S::call(&Component::<S>(PhantomData), arguments)
        .map(outcome_out)
        .map_err(failure_out)
}

/// `sharded.split` for a skill.
pub fn split<S: Sharded>(arguments: &str, parts: u32) -> Result<Vec<String>, types::Failure> {
    S::split(&Component::<S>(PhantomData), arguments, parts).map_err(failure_out)
}

/// `sharded.merge` for a skill.
pub fn merge<S: Sharded>(arguments: &str, outcomes: Vec<types::Outcome>) -> Result<types::Outcome, types::Failure> {
    let outcomes = outcomes
        .into_iter()
        .map(|outcome| sdk::Outcome {
            text: outcome.text,
            truncated: outcome.truncated,
            cursor: outcome.cursor,
            deletions: outcome.deletions,
            details: outcome.details,
        })
        .collect();
    S::merge(arguments, outcomes).map(outcome_out).map_err(failure_out)
}

fn outcome_out(outcome: sdk::Outcome) -> types::Outcome {
    types::Outcome {
        text: outcome.text,
        truncated: outcome.truncated,
        cursor: outcome.cursor,
        deletions: outcome.deletions,
        details: outcome.details,
    }
}

fn failure_out(failure: sdk::Failure) -> types::Failure {
    types::Failure {
        code: failure.code,
        message: failure.message,
        hint: failure.hint,
    }
}

fn failure_in(failure: types::Failure) -> sdk::Failure {
    sdk::Failure {
        code: failure.code,
        message: failure.message,
        hint: failure.hint,
    }
}

fn suite_in(suite: tests::Suite) -> sdk::TestSuite {
    sdk::TestSuite {
        recipe: suite.recipe,
        directory: suite.directory,
        reason: suite.reason,
        outcome: suite.outcome.map(results_in).map_err(failure_in),
    }
}

fn results_in(results: tests::Results) -> sdk::SuiteResults {
    sdk::SuiteResults {
        report: report_in(results.report),
        counts: results.counts.map(|counts| sdk::SuiteCounts {
            failed: counts.failed,
            errors: counts.errors,
            passed: counts.passed,
            skipped: counts.skipped,
            todo: counts.todo,
            xfailed: counts.xfailed,
            xpassed: counts.xpassed,
            deselected: counts.deselected,
            warnings: counts.warnings,
        }),
        failed: results
            .failed
            .into_iter()
            .map(|test| sdk::SuiteFailure {
                name: test.name,
                message: test.message,
                details: test.details,
            })
            .collect(),
        failed_left_out: results.failed_left_out,
        notes: results.notes,
    }
}

fn report_in(report: types::Report) -> sdk::RunReport {
    sdk::RunReport {
        command: report.command,
        exit_code: report.exit_code,
        output: report.output,
        output_cut: report.output_cut,
        duration_ms: report.duration_ms,
        timed_out: report.timed_out,
        sandbox: report.sandbox,
        notes: Vec::new(),
    }
    .with_notes_apart()
}
