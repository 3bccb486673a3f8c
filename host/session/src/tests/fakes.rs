//! A scripted model and scripted skills, in place of the real ones.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::stream;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use tool_config::ProviderSettings;
use tool_core::api::{
    Effect, ErrorKind, Problem, Receipt, SkillEntry, SkillFunction, SkillOrigin, SkillState, TestCounts, TestDetails,
    TestRun, TestRunner,
};
use tool_provider::{
    EventStream, Message, ModelRequest, Provider, ProviderError, ProviderEvent, StopReason, ToolCall, ToolSpec, Usage,
};
use tool_repository::changes::{FileChange, FileState, PreparedChange};
use tool_session::engine::{Engine, KeyObserver, Variables};
use tool_skill::lock::{LockDifference, SkillLock};
use tool_skill::policy::Decision;
use tool_skill::{
    CallContext, CallError, CallOutcome, CallReport, HostNotes, LockedSkills, OfferedTools, Question, RawArguments,
    SkillScope,
};

/// Next step of the scripted model.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    Say(&'static str),
    Pause(Duration),
    Call(&'static str, serde_json::Value),
    Hang,
    Fail(Problem),
    Panic,
    /// Whatever a wire may say.
    Event(ProviderEvent),
    /// Instead of the reason that follows from the calls.
    End(StopReason),
}

/// An engine whose model follows a script of rounds, and whose skills are those of [`FakeEngine::run`].
pub(crate) struct FakeEngine {
    rounds: Arc<Mutex<VecDeque<Vec<Act>>>>,
    pub(crate) asked: Asked,
}

/// The conversations that the model was sent.
pub(crate) type Asked = Arc<Mutex<Vec<Vec<Message>>>>;

impl FakeEngine {
    pub(crate) fn new(rounds: Vec<Vec<Act>>) -> Arc<Self> {
        Arc::new(Self {
            rounds: Arc::new(Mutex::new(rounds.into())),
            asked: Asked::default(),
        })
    }

    fn run(context: &CallContext, name: &str, arguments: &serde_json::Value) -> Result<CallOutcome, CallError> {
        let failure = |code: &str, message: &str| CallError::Failure {
            skill: name.to_owned(),
            kind: ErrorKind::from_code(code),
            message: message.to_owned(),
            hint: None,
        };
        let text = |field: &str| arguments[field].as_str().unwrap_or_default().to_owned();
        match name {
            "read_file" => Ok(outcome("1  print()", &[])),
            "write_file" => {
                if context.policy.decide(Effect::WriteRepository, false) != Decision::Allow {
                    return Err(failure("denied", "writing is not allowed"));
                }
                let path = text("path");
                if path == "huge.txt" {
                    return Err(failure("limit", "the proposal has more than 32 MiB"));
                }
                let place = context.repository.root().join(&path);
                let state = |content: Vec<u8>| FileState { content, mode: 0o644 };
                let change = PreparedChange {
                    id: uuid::Uuid::new_v4().simple().to_string(),
                    call_id: context.call_id.as_deref().map(str::to_owned),
                    root: context.repository.root().to_owned(),
                    files: vec![FileChange {
                        path: path.clone(),
                        before: fs::read(&place).ok().map(state),
                        after: Some(state(text("content").into())),
                    }],
                    directories: Vec::new(),
                };
                context
                    .changes
                    .prepare(&change)
                    .map_err(|error| failure("failed", &error.to_string()))?;
                fs::write(&place, text("content")).expect("it can be written");
                context.changes.committed(&change.id).expect("it can be noted");
                Ok(outcome("written", &[&path]))
            }
            // The output of the runner stands in a file, which a script may change.
            "run_tests" => match fs::read_to_string(output_of_tests(context)) {
                Ok(output) if output == "hang" => Self::run(context, "wait", arguments),
                // Ends when the test creates a file beside the repository.
                Ok(output) if output.starts_with("held") => {
                    while !context.repository.root().with_file_name("go").exists() {
                        if context.cancel.is_cancelled() {
                            return Self::run(context, "wait", arguments);
                        }
                        std::thread::sleep(Duration::from_millis(2));
                    }
                    report_of(&output).result
                }
                Ok(output) => report_of(&output).result,
                Err(_) => Err(failure("not-found", "no test suite found")),
            },
            "commit" => {
                let question = Question::new(Effect::CommitGit, "Commit", "+x");
                if context.approver.ask(&question, &context.cancel).is_yes() {
                    Ok(outcome("committed", &[]))
                } else {
                    Err(failure("denied", "nobody said yes"))
                }
            }
            "wait" => {
                while !context.cancel.is_cancelled() {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(CallError::Cancelled { skill: name.to_owned() })
            }
            "panic" => panic!("as it was told"),
            // Nothing ends it before its time.
            "deaf" => {
                std::thread::sleep(Duration::from_secs(4));
                Ok(outcome("late", &[]))
            }
            _ => Err(CallError::Unknown {
                name: name.to_owned(),
                nearest: None,
            }),
        }
    }
}

/// The file that holds what the runner prints.
fn output_of_tests(context: &CallContext) -> std::path::PathBuf {
    context.repository.root().join("output.txt")
}

/// Outcome of a call of `run_tests` whose runner printed `output`, with a line for each failing test.
fn report_of(output: &str) -> CallReport {
    let failing: Vec<&str> = output.lines().filter_map(|line| line.strip_prefix("FAILED ")).collect();
    test_report(TestRunner::Pytest, i32::from(!failing.is_empty()), output, &failing)
}

/// Outcome of a call of `run_tests` whose runner took a second and printed `output`.
pub(crate) fn test_report(runner: TestRunner, exit_code: i32, output: &str, failing: &[&str]) -> CallReport {
    let counts = TestCounts::read(runner, output);
    let run = TestRun::new(runner.name(), Some(exit_code), false, 1000, counts);
    let details = TestDetails {
        run: run.clone(),
        failing: failing.iter().map(|&name| name.to_owned()).collect(),
        failing_left_out: 0,
    };
    let mut report = CallReport {
        result: Ok(CallOutcome {
            details: serde_json::to_value(details).ok(),
            ..outcome(&format!("{}\n{output}", run.verdict()), &[])
        }),
        receipt: Some(receipt("run_tests", json!({}))),
        foreign: Vec::new(),
        notes: HostNotes::default(),
    };
    report.receipt.as_mut().expect("it was just made").tests = Some(run);
    report
}

fn receipt(name: &str, arguments: serde_json::Value) -> Receipt {
    Receipt {
        skill: name.to_owned(),
        digest: "d".to_owned(),
        arguments,
        changes: Vec::new(),
        grants: Vec::new(),
        wall_us: 1,
        peak_memory_bytes: 1,
        bytes_in: 0,
        bytes_out: 0,
        files_proposed: Vec::new(),
        tests: None,
        commits: Vec::new(),
        packages: Vec::new(),
        requests: Vec::new(),
        verdict: "ok".to_owned(),
    }
}

fn outcome(text: &str, files: &[&str]) -> CallOutcome {
    CallOutcome {
        text: text.to_owned(),
        truncated: false,
        cursor: None,
        files_modified: files.iter().map(|&path| path.to_owned()).collect(),
        details: None,
        ..CallOutcome::default()
    }
}

impl Engine for FakeEngine {
    fn connect(
        &self,
        settings: &ProviderSettings,
        _: &Variables,
        _: &KeyObserver,
    ) -> Result<Arc<dyn Provider>, Problem> {
        Ok(Arc::new(FakeProvider {
            model: settings.model.clone(),
            rounds: Arc::clone(&self.rounds),
            asked: Arc::clone(&self.asked),
        }))
    }

    fn entries(&self, _: Option<&dyn LockedSkills>) -> Vec<SkillEntry> {
        let entry = |name: &str, effect: Effect| SkillEntry {
            name: name.into(),
            version: "1.0.0".into(),
            description: String::new(),
            effects: vec![effect],
            digest: String::new(),
            origin: SkillOrigin::Builtin,
            state: SkillState::Ready,
            reason: None,
            signature: None,
            functions: vec![SkillFunction {
                name: name.into(),
                title: None,
                description: String::new(),
                effects: vec![effect],
                parameters: json!({}),
                output: None,
                tags: Vec::new(),
                operations: None,
            }],
        };
        vec![
            entry("read_file", Effect::ReadRepository),
            entry("write_file", Effect::WriteRepository),
            entry("commit", Effect::CommitGit),
            entry("run_tests", Effect::RunProcess),
            entry("wait", Effect::ReadRepository),
            entry("panic", Effect::ReadRepository),
            entry("deaf", Effect::ReadRepository),
        ]
    }

    fn differences(&self, lock: &SkillLock, _: &Path) -> Vec<LockDifference> {
        lock.differences(&self.entries(None))
    }

    fn effects(&self, name: &str, _: Option<&SkillLock>) -> Option<Vec<Effect>> {
        let mut entries = self.entries(None).into_iter();
        entries.find(|entry| entry.name == name).map(|entry| entry.effects)
    }

    fn specs(&self, _: SkillScope<'_>) -> OfferedTools {
        let spec = |entry: SkillEntry| ToolSpec {
            name: entry.name,
            description: entry.description,
            parameters: json!({"type": "object"}),
        };
        OfferedTools {
            builtin: self.entries(None).into_iter().map(spec).collect(),
            team: Vec::new(),
        }
    }

    fn call(&self, context: &Arc<CallContext>, name: &str, arguments: RawArguments<'_>) -> CallReport {
        let arguments = match arguments {
            RawArguments::Text(text) => serde_json::from_str(text).unwrap_or_default(),
            RawArguments::Value(value) => value.clone(),
        };
        let result = Self::run(context, name, &arguments);
        let tests = fs::read_to_string(output_of_tests(context))
            .ok()
            .filter(|_| name == "run_tests");
        let tests = tests.and_then(|output| report_of(&output).receipt?.tests);
        let receipt = Receipt {
            verdict: result.as_ref().map_or_else(CallError::verdict, |_| "ok").to_owned(),
            tests,
            ..receipt(name, arguments)
        };
        CallReport {
            result,
            receipt: Some(receipt),
            foreign: Vec::new(),
            notes: HostNotes::default(),
        }
    }
}

struct FakeProvider {
    model: String,
    rounds: Arc<Mutex<VecDeque<Vec<Act>>>>,
    asked: Asked,
}

impl Provider for FakeProvider {
    fn name(&self) -> &'static str {
        "local"
    }

    fn model(&self) -> &str {
        &self.model
    }

    fn stream<'a>(&'a self, request: ModelRequest<'a>, cancel: CancellationToken) -> EventStream<'a> {
        self.asked.lock().expect("no panic").push(request.messages.to_vec());
        let acts = self.rounds.lock().expect("no panic").pop_front().unwrap_or_default();
        let calls = acts.iter().any(|act| matches!(act, Act::Call(..)));
        let given = acts.iter().find_map(|act| match act {
            Act::End(reason) => Some(*reason),
            _ => None,
        });
        let reason = given.unwrap_or(if calls {
            StopReason::ToolUse
        } else {
            StopReason::EndTurn
        });
        let counts = acts
            .iter()
            .any(|act| matches!(act, Act::Event(ProviderEvent::Usage(_))));
        let acts: VecDeque<Option<Act>> = acts.into_iter().map(Some).chain([None]).collect();
        Box::pin(stream::unfold(
            (acts, cancel, 0),
            move |(mut acts, cancel, count)| async move {
                loop {
                    let event = match acts.pop_front()? {
                        Some(Act::Say(text)) => Ok(ProviderEvent::Text(text.to_owned())),
                        Some(Act::Pause(time)) => {
                            tokio::time::sleep(time).await;
                            continue;
                        }
                        Some(Act::Call(name, arguments)) => Ok(ProviderEvent::ToolCall(ToolCall {
                            id: format!("call_{count}"),
                            name: name.to_owned(),
                            arguments: arguments.to_string(),
                        })),
                        Some(Act::Hang) => {
                            cancel.cancelled().await;
                            acts.clear();
                            Err(ProviderError::Cancelled)
                        }
                        Some(Act::Fail(problem)) => {
                            acts.clear();
                            Err(ProviderError::Failed(problem))
                        }
                        Some(Act::Panic) => panic!("as it was told"),
                        Some(Act::Event(event)) => Ok(event),
                        Some(Act::End(_)) => continue,
                        None if acts.is_empty() && count >= 0 && !counts => {
                            acts.clear();
                            return Some((
                                Ok(ProviderEvent::Usage(Usage {
                                    input_tokens: 10,
                                    output_tokens: 3,
                                    ..Usage::default()
                                })),
                                (VecDeque::from([None]), cancel, -1),
                            ));
                        }
                        None => Ok(ProviderEvent::Stop {
                            reason,
                            opaque: serde_json::Value::Null,
                        }),
                    };
                    return Some((event, (acts, cancel, if count < 0 { count } else { count + 1 })));
                }
            },
        ))
    }
}
