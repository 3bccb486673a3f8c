//! A skill's test cases: calls and their expected outcomes.
//!
//! The author writes them into `cases.toml`. Each case is one call in the real sandbox, on a fresh copy of the folder
//! `fixture` beside the file; the outcome is compared with what the case expects. A file that cannot be parsed, or
//! that expects nothing, is an error with its line: a suite that checks nothing must not look like one that passes.
//! The author of the file may be a stranger. A case may let its call change the copy, and run only what the user has
//! allowed.

mod compare;
mod fixture;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toml::Spanned;

use super::policy::{EffectCause, Policy};
use super::small_files::{self, LinkPolicy};
use super::{CallContext, Inspection, RawArguments, SessionFiles, SkillHost, TrialSkill};
use compare::ActualOutcome;
use tool_boundary::failure_kinds;
use tool_core::api::{Effect, ErrorKind, Grant};
use tool_core::api::{PolicyRequest, Problem, Receipt};
use tool_core::text::{nearest_key, nearest_name};
use tool_repository::{Options, Repository};
use tool_sandbox::program_sandbox;

/// Bytes of a skill's file of cases. Texts of answers are in it; what is longer belongs into the fixture.
const CASES_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Cases of a skill. Each copies the fixture and runs a call, some milliseconds.
const CASES_MAX: usize = 1000;

/// Name of the file with the cases.
pub const FILE: &str = "cases.toml";

/// Name of the folder that each case gets a copy of.
pub const FIXTURE: &str = "fixture";

/// Effects that run other programs on this machine. A stranger may have written the cases, so only an option of the
/// user grants these effects.
const BY_WORD: [Effect; 2] = [Effect::RunProcess, Effect::Install];

/// A test case of a skill.
#[derive(Debug, Clone)]
pub struct SkillCase {
    /// What the case claims; its name in results.
    pub name: String,
    /// Function to call; absent if the skill has only one.
    pub function: Option<String>,
    /// Arguments of the call.
    pub arguments: Value,
    policy: Policy,
    /// Effects that the case allows and that the user has to grant by option.
    by_word: Vec<Effect>,
    expected: ExpectedOutcome,
}

/// Outcome that a case expects.
#[derive(Debug, Clone)]
struct ExpectedOutcome {
    equals: Option<String>,
    contains: TextList,
    lacks: TextList,
    matches: Option<Regex>,
    fails: Option<String>,
    files: BTreeMap<String, ProposedContent>,
}

/// A case as it is written, with positions for errors.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCase {
    /// What the case claims; its name in results.
    name: Spanned<String>,
    /// Function to call, if the skill has several.
    #[serde(default)]
    function: Option<String>,
    /// Arguments: a table, or the text of a JSON object.
    #[serde(default)]
    arguments: Option<Spanned<toml::Value>>,
    /// Effects that are granted in addition to reading.
    #[serde(default)]
    allow: Vec<Spanned<String>>,
    /// Effects that are denied.
    #[serde(default)]
    deny: Vec<Spanned<String>>,
    /// The whole answer, except for line breaks at its end.
    #[serde(default)]
    equals: Option<String>,
    /// Texts that the answer must hold.
    #[serde(default)]
    contains: TextList,
    /// Texts that the answer must not hold.
    #[serde(default)]
    lacks: TextList,
    /// A regular expression that matches somewhere in the answer.
    #[serde(default)]
    matches: Option<Spanned<String>>,
    /// Code of the expected failure; the other texts then apply to its message and hint.
    #[serde(default)]
    fails: Option<Spanned<String>>,
    /// Files that the call proposes, with their content; `false` for a removed file. By default none.
    #[serde(default)]
    files: BTreeMap<String, Spanned<ProposedContent>>,
}

/// A problem as the end of a sentence, and its position; without a position, the whole case is meant.
type CaseProblem = (Option<usize>, String);

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged, expecting = "expected a text or a list of texts")]
enum TextList {
    One(String),
    Several(Vec<String>),
}

impl Default for TextList {
    fn default() -> Self {
        Self::Several(Vec::new())
    }
}

impl TextList {
    fn all(&self) -> &[String] {
        match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::Several(texts) => texts,
        }
    }
}

/// Proposed state of a file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(
    untagged,
    expecting = "expected the text of the file, or `false` for one that is removed"
)]
enum ProposedContent {
    Text(String),
    /// Only `false` is valid.
    Removed(bool),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CasesFile {
    #[serde(default)]
    case: Vec<Spanned<WrittenCase>>,
}

/// Reason why cases cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum CasesError {
    /// A file or a folder could not be read or written.
    #[error("`{}` could not be {action}", path.display())]
    Io {
        /// Path of the file or folder.
        path: PathBuf,
        /// What was tried, as a participle: `read`, `copied`.
        action: &'static str,
        /// Error of the file system.
        source: std::io::Error,
    },
    /// The file is not valid.
    #[error("`{}`, line {line}: {reason}", path.display())]
    Line {
        /// Path of the file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// The problem, as the end of a sentence.
        reason: String,
    },
    /// The file has no cases.
    #[error("`{}` holds no case", path.display())]
    Empty {
        /// Path of the file.
        path: PathBuf,
    },
    /// The fixture is a link, or not a folder.
    #[error("`{}` {reason}: a fixture is a folder of its own beside `{FILE}`", path.display())]
    NoFolder {
        /// Path of the fixture.
        path: PathBuf,
        /// The problem, as a part of the message.
        reason: &'static str,
    },
    /// A case allows an effect that only an option of the user grants.
    #[error("The case `{case}` allows `{effect}`, which runs programs here and takes your own word")]
    Ungranted {
        /// Name of the case.
        case: String,
        /// The effect that is not granted.
        effect: Box<Effect>,
    },
    /// The skill has several functions and the case names none, or it names one that the skill does not have.
    #[error("The case `{case}` needs `function = \"NAME\"` with one of the skill's functions: {}", functions.join(", "))]
    Function {
        /// Name of the case.
        case: String,
        /// The functions of the skill.
        functions: Vec<String>,
    },
    /// The copy of the fixture cannot be opened as a repository.
    #[error("the copy of `{}` is no repository: {reason}", path.display())]
    Fixture {
        /// Path of the folder.
        path: PathBuf,
        /// Description of the cause.
        reason: String,
    },
    /// The fixture is larger than the limit for copies.
    #[error("`{}` holds more than {max}, which is the most that is copied for each case", path.display())]
    TooLarge {
        /// Path of the folder.
        path: PathBuf,
        /// Description of the limit.
        max: String,
    },
}

/// Outcome of a case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CaseResult {
    /// Name of the case.
    pub name: String,
    /// True if the outcome is as expected.
    pub passed: bool,
    /// Differences from the expectation, each a sentence or a diff.
    pub differences: Vec<String>,
    /// `ok`, or the code of the failure.
    pub verdict: String,
    /// Cost of the call; absent if nothing ran.
    pub receipt: Option<Receipt>,
    /// What the skill wrote to its log, standard output and standard error.
    pub log: Vec<String>,
}

/// Reads the cases in a skill's folder.
///
/// # Errors
///
/// The file cannot be read, is not valid or has no cases.
pub fn read_cases(folder: &Path) -> Result<Vec<SkillCase>, CasesError> {
    let path = folder.join(FILE);
    let text = small_files::read_text(&path, CASES_BYTES_MAX, LinkPolicy::Followed);
    let text = text.map_err(|source| CasesError::Io {
        path: path.clone(),
        action: "read",
        source,
    })?;
    parse(&path, &text)
}

/// The folder that each case gets a copy of; `None` if there is none. A link is refused, because the author could not
/// hand on its target.
///
/// # Errors
///
/// The fixture is a link, or not a folder.
pub fn fixture_in(folder: &Path) -> Result<Option<PathBuf>, CasesError> {
    let path = folder.join(FIXTURE);
    let reason = match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => return Ok(Some(path)),
        Ok(metadata) if metadata.is_symlink() => "is a link",
        Ok(_) => "is no folder",
        Err(_) => return Ok(None),
    };
    Err(CasesError::NoFolder { path, reason })
}

fn parse(path: &Path, text: &str) -> Result<Vec<SkillCase>, CasesError> {
    let at = |offset: usize, reason: String| CasesError::Line {
        path: path.to_owned(),
        line: line_number(text, offset),
        reason,
    };
    let file: CasesFile = toml::from_str(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        at(offset, parser_reason(error.message()))
    })?;
    if file.case.is_empty() {
        return Err(CasesError::Empty { path: path.to_owned() });
    }
    if let Some(first) = file.case.get(CASES_MAX) {
        let max = CASES_MAX;
        return Err(at(first.span().start, format!("there are more than {max} cases")));
    }
    let mut cases: Vec<SkillCase> = Vec::new();
    for written in file.case {
        let start = written.span().start;
        let written = written.into_inner();
        let name = &written.name;
        if cases.iter().any(|known| known.name == *name.get_ref()) {
            let reason = format!("a second case is named `{}`", name.get_ref());
            return Err(at(name.span().start, reason));
        }
        let case = written.checked();
        cases.push(case.map_err(|(place, reason)| at(place.unwrap_or(start), reason))?);
    }
    Ok(cases)
}

/// The parser's message, with the nearest valid key.
fn parser_reason(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    match nearest_key(message) {
        Some(near) => format!("{first}; did you mean `{near}`?"),
        None => first.to_owned(),
    }
}

fn line_number(text: &str, offset: usize) -> usize {
    let before = &text.as_bytes()[..offset.min(text.len())];
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

impl WrittenCase {
    fn checked(self) -> Result<SkillCase, CaseProblem> {
        let name = self.name.get_ref();
        if name.trim().is_empty() {
            return Err(slip_at(&self.name, "a case has an empty name".to_owned()));
        }
        let texts = self.contains.all().len() + self.lacks.all().len();
        let expects = self.equals.is_some() || self.matches.is_some() || self.fails.is_some() || !self.files.is_empty();
        if texts == 0 && !expects {
            let reason = format!(
                "the case `{name}` expects nothing: give it `equals`, `contains`, `lacks`, `matches`, `fails` or `files`"
            );
            return Err((None, reason));
        }
        let (policy, by_word) = (self.policy()?, self.by_word()?);
        let arguments = self.arguments()?;
        let (matches, fails) = (self.matches()?, self.fails()?);
        let files = self.files.iter().map(|(path, file)| match file.get_ref() {
            ProposedContent::Removed(true) => {
                let reason =
                    format!("a file of the case `{name}` is `true`: give its text, or `false` where it is removed");
                Err(slip_at(file, reason))
            }
            known => Ok((path.clone(), known.clone())),
        });
        let files = files.collect::<Result<_, CaseProblem>>()?;
        Ok(SkillCase {
            function: self.function,
            arguments,
            policy,
            by_word,
            expected: ExpectedOutcome {
                equals: self.equals,
                contains: self.contains,
                lacks: self.lacks,
                matches,
                fails,
                files,
            },
            name: self.name.into_inner(),
        })
    }

    fn arguments(&self) -> Result<Value, CaseProblem> {
        let Some(written) = &self.arguments else {
            return Ok(Value::Object(Map::new()));
        };
        let unfit = |why: &str| {
            let reason = format!("`arguments` of the case `{}` {why}", self.name.get_ref());
            Err(slip_at(written, reason))
        };
        match written.get_ref() {
            toml::Value::String(text) => match serde_json::from_str(text) {
                Ok(value) => Ok(value),
                Err(error) => unfit(&format!("is not JSON: {error}")),
            },
            table @ toml::Value::Table(_) => Ok(toml_to_json(table)),
            _ => unfit("is neither a table nor the text of a JSON object"),
        }
    }

    fn matches(&self) -> Result<Option<Regex>, CaseProblem> {
        let Some(pattern) = &self.matches else { return Ok(None) };
        Regex::new(pattern.get_ref()).map(Some).map_err(|error| {
            let said = error.to_string();
            let last = said.lines().last().unwrap_or_default();
            let name = self.name.get_ref();
            slip_at(
                pattern,
                format!("`matches` of the case `{name}` is no regular expression: {last}"),
            )
        })
    }

    fn fails(&self) -> Result<Option<String>, CaseProblem> {
        let Some(code) = &self.fails else { return Ok(None) };
        let known = failure_kinds().any(|kind| kind.code() == code.get_ref());
        if known {
            Ok(Some(code.get_ref().clone()))
        } else {
            let kinds: Vec<ErrorKind> = failure_kinds().collect();
            let codes: Vec<&str> = kinds.iter().map(ErrorKind::code).collect();
            let meant = nearest_name(code.get_ref(), codes.iter().copied());
            let meant = meant.map_or_else(|| ".".to_owned(), |near| format!("; did you mean `{near}`?"));
            let (name, code_of) = (self.name.get_ref(), code.get_ref());
            let reason = format!(
                "`fails` of the case `{name}` is `{code_of}`, which no call ends with{meant} The codes are {}",
                codes.join(", ")
            );
            Err(slip_at(code, reason))
        }
    }

    fn policy(&self) -> Result<Policy, CaseProblem> {
        for grant in self.allow.iter().chain(&self.deny) {
            let known = grant.get_ref().parse::<Grant>();
            known.map_err(|problem| slip_at(grant, in_one(&problem)))?;
        }
        let names = |grants: &[Spanned<String>]| grants.iter().map(|grant| grant.get_ref().clone()).collect();
        let request = PolicyRequest {
            allow: names(&self.allow),
            deny: names(&self.deny),
            ..PolicyRequest::default()
        };
        Policy::new(EffectCause::SkillCall, &request).map_err(|problem| (None, in_one(&problem)))
    }

    fn by_word(&self) -> Result<Vec<Effect>, CaseProblem> {
        let effects = self.allow.iter().map(|grant| {
            let known = grant.get_ref().parse::<Grant>();
            known
                .map(Grant::effect)
                .map_err(|problem| slip_at(grant, in_one(&problem)))
        });
        let effects: Vec<Effect> = effects.collect::<Result<_, _>>()?;
        Ok(effects.into_iter().filter(|effect| BY_WORD.contains(effect)).collect())
    }
}

/// Describes a problem at a position.
fn slip_at<T>(place: &Spanned<T>, reason: String) -> CaseProblem {
    (Some(place.span().start), reason)
}

impl SkillCase {
    /// Checks that the user has granted the effects that a file cannot grant.
    ///
    /// # Errors
    ///
    /// [`CasesError::Ungranted`].
    pub fn check_granted(&self, granted: &[Effect]) -> Result<(), CasesError> {
        match self.by_word.iter().find(|effect| !granted.contains(effect)) {
            None => Ok(()),
            Some(&effect) => Err(CasesError::Ungranted {
                case: self.name.clone(),
                effect: Box::new(effect),
            }),
        }
    }

    /// Chooses the function to call.
    ///
    /// # Errors
    ///
    /// [`CasesError::Function`].
    pub fn function_of<'a>(&self, skill: &'a Inspection) -> Result<&'a str, CasesError> {
        let mut names = skill.functions.iter().map(|function| function.name.as_str());
        let called = match &self.function {
            Some(wanted) => names.find(|name| name == wanted),
            None if skill.functions.len() == 1 => names.next(),
            None => None,
        };
        called.ok_or_else(|| CasesError::Function {
            case: self.name.clone(),
            functions: skill.functions.iter().map(|function| function.name.clone()).collect(),
        })
    }

    /// Makes the call on a copy of the fixture beneath `folder`, and compares the outcome. `granted` are the effects
    /// that the user allows by option. Blocks.
    ///
    /// # Errors
    ///
    /// The copy cannot be made, or an effect is not granted. A difference is not an error.
    pub fn run(
        &self,
        host: &SkillHost,
        trial: &TrialSkill,
        folder: &Path,
        granted: &[Effect],
    ) -> Result<CaseResult, CasesError> {
        self.check_granted(granted)?;
        let function = self.function_of(trial.inspection())?;
        let copy = fixture::copy_fixture(folder)?;
        let no_repository = |reason: String| CasesError::Fixture {
            path: folder.join(FIXTURE),
            reason,
        };
        let repository = Repository::open(copy.root(), &Options::default());
        let repository = repository.map_err(|error| no_repository(error.to_string()))?;
        let policy = self.policy.clone().contained(program_sandbox::detect_sandbox);
        let policy = policy.map_err(|problem| no_repository(in_one(&problem)))?;
        let mut context = CallContext::unattended(repository, policy);
        // As with `tool skill call`, the call may change files that the author names without reading them first.
        context.files = Arc::new(Mutex::new(SessionFiles::named_in(
            &self.arguments,
            &context.repository,
            &context.cancel,
        )));
        let context = Arc::new(context);
        let report = host.try_out(&context, trial, function, RawArguments::Value(&self.arguments));
        let came = ActualOutcome::new(&report, copy.root());
        let differences = compare::find_differences(&self.expected, &came);
        Ok(CaseResult {
            name: self.name.clone(),
            passed: differences.is_empty(),
            differences,
            verdict: came.verdict,
            receipt: report.receipt,
            log: report.notes.log,
        })
    }
}

fn in_one(problem: &Problem) -> String {
    match &problem.hint {
        Some(hint) => format!("{}; {hint}", problem.message),
        None => problem.message.clone(),
    }
}

/// Converts a TOML value to JSON. A date becomes its text.
fn toml_to_json(value: &toml::Value) -> Value {
    match value {
        toml::Value::String(text) => text.as_str().into(),
        toml::Value::Integer(number) => (*number).into(),
        toml::Value::Float(number) => (*number).into(),
        toml::Value::Boolean(value) => (*value).into(),
        toml::Value::Datetime(moment) => moment.to_string().into(),
        toml::Value::Array(elements) => elements.iter().map(toml_to_json).collect(),
        toml::Value::Table(table) => table
            .iter()
            .map(|(key, value)| (key.clone(), toml_to_json(value)))
            .collect(),
    }
}

#[cfg(test)]
mod tests;
