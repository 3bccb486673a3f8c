//! Questions that wait for the user's answer: an `approval` event asks, and POST /approvals/{id} answers.
//!
//! An answer counts only with the secret that the session's starter received, so that neither the model nor another
//! reader of the stream can approve. If the event shows only a part, approving also takes the digest of the whole. A
//! question without an answer in time counts as refused.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use subtle::ConstantTimeEq;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::limits;
use tool_core::api::Effect;
use tool_core::api::{
    self, ApprovalAnswer, ApprovalOutcome, ApprovalScope, ErrorKind, Event, LeftOut, OpenApproval, Problem,
};
use tool_core::digest::sha256_hex;
use tool_core::redaction::Redactor;
use tool_core::text::clean_text;
use tool_journal::feed::Recorder;
use tool_journal::journal::{self, JournalEntry};
use tool_repository::diff::first_lines;
use tool_skill::{Approver, Question, UserAnswer};

/// Limit for an approval's detail in its event in bytes: a diff or an argument vector. The approval itself holds all
/// of it.
const APPROVAL_DETAIL_BYTES_MAX: usize = 256 * 1024;

/// Open questions of all sessions.
#[derive(Default)]
pub struct Approvals {
    open: Mutex<HashMap<String, OpenQuestion>>,
}

struct OpenQuestion {
    secret: Arc<str>,
    asked: Arc<QuestionText>,
    answer: oneshot::Sender<UserAnswer>,
}

/// A whole question: approving it approves all of this.
struct QuestionText {
    question: Question,
    digest: String,
    /// Number of bytes of the detail in its event.
    shown_bytes: usize,
}

/// Chooses how many bytes of the detail the event shows: whole lines, or the beginning of a first line that is too
/// long.
fn shown_bytes(detail: &str) -> usize {
    let lines = first_lines(detail, APPROVAL_DETAIL_BYTES_MAX).len();
    if lines >= APPROVAL_DETAIL_BYTES_MAX / 2 {
        lines
    } else {
        detail.floor_char_boundary(APPROVAL_DETAIL_BYTES_MAX)
    }
}

impl QuestionText {
    fn new(question: &Question) -> Self {
        Self {
            question: question.clone(),
            digest: sha256_hex(question.detail().as_bytes()),
            shown_bytes: shown_bytes(question.detail()),
        }
    }

    fn scopes(&self) -> Vec<ApprovalScope> {
        let lasts = self.question.may_last().then_some(ApprovalScope::Session);
        [ApprovalScope::Call].into_iter().chain(lasts).collect()
    }

    fn is_shown_whole(&self) -> bool {
        self.shown_bytes == self.question.detail().len()
    }

    /// The detail for the event. The rest is counted, and stored in a file beside the journal.
    fn shown(&self, id: &str, folder: &Path) -> (String, Option<LeftOut>) {
        let (shown, rest) = self.question.detail().split_at(self.shown_bytes);
        if rest.is_empty() {
            return (shown.to_owned(), None);
        }
        let place = folder.join(format!("approval-{id}.txt"));
        let path = match write_question(&place, self.question.detail()) {
            Ok(()) => Some(place.to_string_lossy().into_owned()),
            Err(error) => {
                tracing::warn!(%error, "a long approval could not be written down");
                None
            }
        };
        let left_out = LeftOut {
            lines: rest.lines().count() as u64,
            // Content lines of a diff begin with a sign, those of a commit message with spaces.
            files: rest.lines().filter(|line| line.starts_with("diff --git ")).count() as u64,
            bytes: rest.len() as u64,
            digest: self.digest.clone(),
            path,
        };
        (format!("{shown}\n{}\n", in_words(&left_out, id)), Some(left_out))
    }

    /// Refuses to approve a part, and an approval with too long a scope.
    fn check(&self, answer: &ApprovalAnswer) -> Result<(), Problem> {
        if !self.scopes().contains(&answer.scope) {
            let message = "A yes to this approval counts for its call alone";
            return Err(Problem::new(ErrorKind::InvalidRequest, message)
                .with_hint("send it without `scope`; the event's `scopes` names those that it takes"));
        }
        let problem = match answer.digest.as_deref() {
            Some(given) if given != self.digest => "The digest is not the one of this approval",
            None if !self.is_shown_whole() => {
                "Only a part of this approval was shown: a yes needs the digest of all of it"
            }
            _ => return Ok(()),
        };
        Err(Problem::new(ErrorKind::InvalidRequest, problem)
            .with_hint("GET /approvals/{id} answers all of it and its `digest`"))
    }
}

fn write_question(place: &Path, detail: &str) -> io::Result<()> {
    let mut file = journal::private_file().create_new(true).write(true).open(place)?;
    file.write_all(detail.as_bytes())
}

fn in_words(left_out: &LeftOut, id: &str) -> String {
    let LeftOut {
        lines,
        files,
        bytes,
        digest,
        path,
    } = left_out;
    let files = match files {
        0 => String::new(),
        1 => ", with the whole of 1 file".to_owned(),
        files => format!(", with the whole of {files} files"),
    };
    let place = path
        .as_ref()
        .map_or_else(|| format!("at GET /approvals/{id}"), |path| format!("in {path}"));
    format!(
        "[{lines} lines of {bytes} bytes are left out here{files}. All of it is {place}; its SHA-256 is {digest}. A yes is one to all of it.]"
    )
}

impl Approvals {
    fn open(&self, secret: &Arc<str>, asked: &Arc<QuestionText>) -> (String, oneshot::Receiver<UserAnswer>) {
        let id = uuid::Uuid::new_v4().to_string();
        let (answer, receiver) = oneshot::channel();
        let open = OpenQuestion {
            secret: Arc::clone(secret),
            asked: Arc::clone(asked),
            answer,
        };
        self.lock().insert(id.clone(), open);
        (id, receiver)
    }

    /// Answers a question. The first answer with the right secret counts, and an approval must be for all of it.
    ///
    /// # Errors
    ///
    /// The question is not open, the secret is wrong, or the approval is for a part.
    pub fn answer(&self, id: &str, answer: &ApprovalAnswer) -> Result<(), Problem> {
        let mut open = self.lock();
        let question = open.get(id).ok_or_else(|| unknown_approval(id))?;
        if !is_same_secret(&question.secret, &answer.secret) {
            return Err(Problem::new(
                ErrorKind::Forbidden,
                "The secret is not the one of the session's starter",
            )
            .with_hint("POST /execute answers it as `approval_secret`"));
        }
        let given = match (answer.approve, answer.scope) {
            (false, _) => UserAnswer::No,
            (true, ApprovalScope::Call) => UserAnswer::Yes,
            (true, ApprovalScope::Session) => UserAnswer::YesForSession,
        };
        if given.is_yes() {
            question.asked.check(answer)?;
        }
        let question = open.remove(id).ok_or_else(|| unknown_approval(id))?;
        question.answer.send(given).map_err(|_| unknown_approval(id))
    }

    /// Returns a whole open question.
    ///
    /// # Errors
    ///
    /// The question is not open.
    pub fn whole(&self, id: &str) -> Result<OpenApproval, Problem> {
        let asked = Arc::clone(&self.lock().get(id).ok_or_else(|| unknown_approval(id))?.asked);
        let question = &asked.question;
        Ok(OpenApproval {
            id: id.to_owned(),
            effect: question.effect().to_string(),
            title: question.title().to_owned(),
            detail: question.detail().to_owned(),
            digest: asked.digest.clone(),
            scopes: asked.scopes(),
        })
    }

    fn close(&self, id: &str) {
        self.lock().remove(id);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, OpenQuestion>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unknown_approval(id: &str) -> Problem {
    let message = format!("No open approval `{id}`: answered, expired, ended with its session, or never asked");
    Problem::new(ErrorKind::NotFound, message)
}

/// Compares two secrets in constant time.
pub fn is_same_secret(expected: &str, given: &str) -> bool {
    bool::from(expected.as_bytes().ct_eq(given.as_bytes()))
}

/// Creates a secret that cannot be guessed: 244 random bits.
pub(crate) fn new_secret() -> Arc<str> {
    format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple()).into()
}

/// Asks the user on behalf of one session.
pub struct SessionApprover {
    approvals: Arc<Approvals>,
    recorder: Arc<Recorder>,
    secret: Arc<str>,
    can_ask: bool,
    /// Receiver of questions for a client that does not follow the session's events.
    relay: Option<Relay>,
    patience: Duration,
    runtime: Handle,
    expired: AtomicBool,
}

impl SessionApprover {
    /// Creates an approver whose questions are answered with `secret`. Must run on a thread of the runtime.
    pub fn new(approvals: Arc<Approvals>, recorder: Arc<Recorder>, secret: Arc<str>, can_ask: bool) -> Self {
        Self {
            approvals,
            recorder,
            secret,
            can_ask,
            relay: None,
            patience: Duration::from_secs(limits::APPROVAL_SECONDS_MAX.unsigned_abs()),
            runtime: Handle::current(),
            expired: AtomicBool::new(false),
        }
    }

    /// Creates an approver for one call, which also sends its questions to `relay`. Must run on a thread of the
    /// runtime.
    pub(super) fn relayed(&self, can_ask: bool, relay: Relay) -> Self {
        let (approvals, recorder) = (Arc::clone(&self.approvals), Arc::clone(&self.recorder));
        Self {
            relay: Some(relay),
            patience: self.patience,
            ..Self::new(approvals, recorder, Arc::clone(&self.secret), can_ask)
        }
    }

    /// Sends a question to the relay, and returns once no receiver is left to answer it.
    async fn pass_on(&self, id: &str, asked: &QuestionText, detail: String) {
        let Some(relay) = &self.relay else {
            return std::future::pending().await;
        };
        let asking = PendingQuestion {
            id: id.to_owned(),
            question: Question::new(
                asked.question.effect(),
                &relay.shown(asked.question.title()),
                &relay.shown(&detail),
            ),
            answer: ApprovalAnswer {
                secret: self.secret.to_string(),
                approve: false,
                digest: Some(asked.digest.clone()),
                scope: ApprovalScope::Call,
            },
            approvals: Arc::clone(&self.approvals),
        };
        // A receiver that reads nothing more is waited for only as long as the answer.
        if relay.to.send(CallProgress::Question(Box::new(asking))).await.is_ok() {
            std::future::pending().await
        }
    }

    /// True if a question of this session was never answered.
    pub fn has_expired(&self) -> bool {
        self.expired.load(Ordering::Relaxed)
    }

    async fn wait(
        &self,
        passed_on: impl Future<Output = ()>,
        mut answer: oneshot::Receiver<UserAnswer>,
        cancel: &CancellationToken,
    ) -> (UserAnswer, ApprovalOutcome) {
        let unanswered = tokio::select! {
            biased;
            () = cancel.cancelled() => return (UserAnswer::No, ApprovalOutcome::Cancelled),
            given = &mut answer => return outcome_of(given.unwrap_or_default()),
            () = passed_on => ApprovalOutcome::Cancelled,
            () = tokio::time::sleep(self.patience) => ApprovalOutcome::Expired,
        };
        // From here on a client learns that its answer is too late. An answer that arrived before counts.
        answer.close();
        answer.try_recv().map_or((UserAnswer::No, unanswered), outcome_of)
    }
}

fn outcome_of(answer: UserAnswer) -> (UserAnswer, ApprovalOutcome) {
    let outcome = if answer.is_yes() {
        ApprovalOutcome::Approved
    } else {
        ApprovalOutcome::Refused
    };
    (answer, outcome)
}

/// Channel for questions to a program that shows them to its user, and perhaps to a model.
pub(super) struct Relay {
    pub(super) to: mpsc::Sender<CallProgress>,
    pub(super) redactor: Arc<Redactor>,
}

impl Relay {
    /// Removes keys and terminal control from a text.
    fn shown(&self, text: &str) -> String {
        clean_text(&self.redactor.text(text, None)).into_owned()
    }
}

/// Message of a running call to its client.
pub enum CallProgress {
    /// A line of live output, without keys.
    Line(String),
    /// The policy requires an approval.
    Question(Box<PendingQuestion>),
}

/// A question on its way to its receiver, with the right to answer it.
pub struct PendingQuestion {
    id: String,
    /// Question for display: a long detail is cut, and says where the whole is.
    question: Question,
    answer: ApprovalAnswer,
    approvals: Arc<Approvals>,
}

impl PendingQuestion {
    /// What is about to happen, in one line.
    pub fn title(&self) -> &str {
        self.question.title()
    }

    /// The exact diff or argument vector.
    pub fn detail(&self) -> &str {
        self.question.detail()
    }

    /// Effect that needs the approval.
    pub fn effect(&self) -> Effect {
        self.question.effect()
    }

    /// True if the question is no longer open.
    pub fn is_over(&self) -> bool {
        !self.approvals.lock().contains_key(&self.id)
    }

    /// Answers the question. An answer that came from elsewhere before, or the end of the time, stands.
    pub fn answer(self, approve: bool) {
        let answer = ApprovalAnswer { approve, ..self.answer };
        let _ = self.approvals.answer(&self.id, &answer);
    }
}

impl Approver for SessionApprover {
    fn can_ask(&self) -> bool {
        self.can_ask
    }

    fn ask(&self, question: &Question, cancel: &CancellationToken) -> UserAnswer {
        if !self.can_ask {
            return UserAnswer::No;
        }
        let asked = Arc::new(QuestionText::new(question));
        let (id, receiver) = self.approvals.open(&self.secret, &asked);
        let (detail, left_out) = asked.shown(&id, self.recorder.folder().path());
        let patience = chrono::Duration::from_std(self.patience).unwrap_or_default();
        self.recorder.event(Event::Approval {
            id: id.clone(),
            effect: question.effect().to_string(),
            call_id: question.call_id().map(str::to_owned),
            title: question.title().to_owned(),
            detail: detail.clone(),
            left_out,
            expires: api::current_time() + patience,
            scopes: asked.scopes(),
        });
        let passed_on = self.pass_on(&id, &asked, detail);
        let (answer, outcome) = self.runtime.block_on(self.wait(passed_on, receiver, cancel));
        self.approvals.close(&id);
        self.expired
            .fetch_or(outcome == ApprovalOutcome::Expired, Ordering::Relaxed);
        self.recorder.record(JournalEntry::Answered {
            id,
            answer: outcome,
            scope: match answer {
                UserAnswer::YesForSession => ApprovalScope::Session,
                UserAnswer::No | UserAnswer::Yes => ApprovalScope::Call,
            },
        });
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::start;
    use tool_core::api::Effect;
    use tool_journal::feed::EventReader;
    use tool_journal::journal::{SessionFolder, SessionWork};

    #[tokio::test]
    async fn what_is_passed_on_holds_no_key_and_rules_no_terminal() {
        let (to, _questions) = mpsc::channel(1);
        let relay = Relay {
            to,
            redactor: Arc::default(),
        };
        let key = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
        let shown = relay.shown(&format!("+token = \"{key}\"\n\u{1b}[2J-old\n"));
        assert!(!shown.contains(&key) && !shown.contains('\u{1b}'), "{shown}");
        assert!(shown.starts_with("+token = ") && shown.ends_with("-old\n"), "{shown}");
    }

    struct Bench {
        _place: tempfile::TempDir,
        approver: Arc<SessionApprover>,
        cancel: CancellationToken,
        events: EventReader,
    }

    fn bench(interactive: bool, patience: Duration) -> Bench {
        let place = tempfile::tempdir().expect("a temporary folder");
        let folder = SessionFolder::new(place.path().join("s"));
        let recorder = Recorder::create(folder, start("s", SessionWork::Skill("x".into()))).expect("it can be made");
        let events = EventReader::follow(Arc::clone(&recorder), "s", 0);
        let mut approver = SessionApprover::new(Arc::default(), recorder, "right".into(), interactive);
        approver.patience = patience;
        Bench {
            _place: place,
            approver: Arc::new(approver),
            cancel: CancellationToken::new(),
            events,
        }
    }

    fn yes(secret: &str, digest: Option<&str>) -> ApprovalAnswer {
        ApprovalAnswer {
            secret: secret.to_owned(),
            approve: true,
            digest: digest.map(str::to_owned),
            scope: ApprovalScope::Call,
        }
    }

    impl Bench {
        fn ask(&self) -> tokio::task::JoinHandle<bool> {
            self.ask_about("+x")
        }

        fn ask_about(&self, detail: &str) -> tokio::task::JoinHandle<bool> {
            let (approver, cancel) = (Arc::clone(&self.approver), self.cancel.clone());
            let question = Question::new(Effect::CommitGit, "Commit 1 file", detail);
            tokio::task::spawn_blocking(move || approver.ask(&question, &cancel).is_yes())
        }

        async fn asked(&mut self) -> String {
            let batch = self.events.next().await.expect("there is an event");
            match &*batch[0].1 {
                Event::Approval { id, effect, .. } if effect == "commit-git" => id.clone(),
                other => panic!("not an approval: {other:?}"),
            }
        }
    }

    #[tokio::test]
    async fn only_the_secret_answers_and_only_once() {
        let mut bench = bench(true, Duration::from_secs(60));
        let asking = bench.ask();
        let id = bench.asked().await;
        let approvals = Arc::clone(&bench.approver.approvals);
        let refused = approvals
            .answer(&id, &yes("wrong", None))
            .expect_err("the secret is wrong");
        assert_eq!(refused.kind, ErrorKind::Forbidden);
        let other = "0".repeat(64);
        let refused = approvals
            .answer(&id, &yes("right", Some(&other)))
            .expect_err("it is a yes to something else");
        assert_eq!(refused.message, "The digest is not the one of this approval");
        approvals.answer(&id, &yes("right", None)).expect("the secret is right");
        assert!(asking.await.expect("it ends"));
        let again = approvals.answer(&id, &yes("right", None)).expect_err("it was answered");
        assert_eq!(again.kind, ErrorKind::NotFound);
        assert!(!bench.approver.has_expired());
    }

    #[tokio::test]
    async fn no_answer_in_time_is_a_no() {
        let bench = bench(true, Duration::from_millis(20));
        assert!(!bench.ask().await.expect("it ends"));
        assert!(bench.approver.has_expired());
        assert!(bench.approver.approvals.lock().is_empty());
    }

    #[tokio::test]
    async fn the_end_of_a_session_ends_its_questions() {
        let mut bench = bench(true, Duration::from_secs(60));
        let asking = bench.ask();
        bench.asked().await;
        bench.cancel.cancel();
        assert!(!asking.await.expect("it ends"));
        assert!(!bench.approver.has_expired());
    }

    /// A bench whose questions also go to a receiver that has taken nothing so far and has room for no more.
    fn crowded(patience: Duration) -> (Bench, mpsc::Receiver<CallProgress>) {
        let (to, taken) = mpsc::channel(1);
        to.try_send(CallProgress::Line("the first".into()))
            .expect("there is room for one");
        let mut bench = bench(true, patience);
        let redactor = Arc::default();
        bench.approver = Arc::new(bench.approver.relayed(true, Relay { to, redactor }));
        (bench, taken)
    }

    #[tokio::test]
    async fn a_reader_that_takes_no_question_holds_nobody_longer_than_an_answer_may() {
        let soon = Duration::from_secs(10);
        let ended = |asking: tokio::task::JoinHandle<bool>| async move {
            let ended = tokio::time::timeout(soon, asking).await;
            ended.expect("it ends").expect("no panic")
        };
        // Its end reaches who waits.
        let (mut one, _full) = crowded(Duration::from_secs(3_600));
        let asking = one.ask();
        one.asked().await;
        one.cancel.cancel();
        assert!(!ended(asking).await);
        // So does an answer that comes another way.
        let (mut one, _full) = crowded(Duration::from_secs(3_600));
        let asking = one.ask();
        let id = one.asked().await;
        let approvals = Arc::clone(&one.approver.approvals);
        approvals.answer(&id, &yes("right", None)).expect("it is open");
        assert!(ended(asking).await);
        // So does the time for it, and the reader's end.
        let (one, _full) = crowded(Duration::from_millis(20));
        assert!(!ended(one.ask()).await);
        assert!(one.approver.has_expired());
        let (one, gone) = crowded(Duration::from_secs(3_600));
        drop(gone);
        assert!(!ended(one.ask()).await);
        assert!(!one.approver.has_expired() && one.approver.approvals.lock().is_empty());
    }

    #[tokio::test]
    async fn where_nobody_answers_nobody_is_asked() {
        let bench = bench(false, Duration::from_secs(60));
        assert!(!bench.approver.can_ask());
        assert!(!bench.ask().await.expect("it ends"));
    }

    #[tokio::test]
    async fn a_question_has_a_bounded_time_and_a_bounded_detail() {
        let mut bench = bench(true, Duration::from_secs(60));
        let usual = SessionApprover::new(
            Arc::default(),
            Arc::clone(&bench.approver.recorder),
            "right".into(),
            true,
        );
        assert_eq!(usual.patience.as_secs(), limits::APPROVAL_SECONDS_MAX.unsigned_abs());
        // A message and three files, of which the second does not fit.
        let file = |name: &str, lines: usize| format!("diff --git a/{name} b/{name}\n{}", "+line\n".repeat(lines));
        let whole = format!("Commit\n\n{}{}{}", file("a", 2), file("b", 60_000), file("c", 3));
        let asking = bench.ask_about(&whole);
        let batch = bench.events.next().await.expect("there is an event");
        let Event::Approval {
            id, detail, left_out, ..
        } = &*batch[0].1
        else {
            panic!("not an approval: {batch:?}")
        };
        assert!(detail.len() <= APPROVAL_DETAIL_BYTES_MAX + 500, "{}", detail.len());
        let left_out = left_out.clone().expect("it is cut");
        let digest = sha256_hex(whole.as_bytes());
        let kept = detail.split("\n\n[").next().unwrap_or_default().lines().count() as u64;
        assert_eq!(
            (left_out.files, &left_out.digest),
            (1, &digest),
            "of the second file a part is shown"
        );
        assert_eq!(left_out.lines, whole.lines().count() as u64 - kept);
        let path = left_out.path.expect("the disk has room");
        assert_eq!(std::fs::read_to_string(&path).expect("it is there"), whole);
        let said = format!(
            "[{} lines of {} bytes are left out here, with the whole of 1 file. All of it is in {path}; its SHA-256 is \
             {digest}. A yes is one to all of it.]\n",
            left_out.lines, left_out.bytes
        );
        assert!(detail.ends_with(&said), "{}", &detail[detail.len() - 400..]);

        let approvals = Arc::clone(&bench.approver.approvals);
        let open = approvals.whole(id).expect("it is open");
        assert_eq!((open.detail, &open.digest), (whole, &digest));
        let refused = approvals
            .answer(id, &yes("right", None))
            .expect_err("it was seen in part");
        assert!(
            refused.message.starts_with("Only a part of this approval was shown"),
            "{refused}"
        );
        approvals
            .answer(id, &yes("right", Some(&digest)))
            .expect("it is a yes to all of it");
        assert!(asking.await.expect("it ends"));
        assert_eq!(
            approvals.whole(id).expect_err("it is answered").kind,
            ErrorKind::NotFound
        );
    }

    #[tokio::test]
    async fn of_a_line_that_is_too_long_the_beginning_is_shown_and_the_rest_counted() {
        let mut bench = bench(true, Duration::from_secs(60));
        let whole = format!(
            "POST https://a.example.org/\n\n{}",
            "x".repeat(2 * APPROVAL_DETAIL_BYTES_MAX)
        );
        let asking = bench.ask_about(&whole);
        let batch = bench.events.next().await.expect("there is an event");
        let Event::Approval { detail, left_out, .. } = &*batch[0].1 else {
            panic!("not an approval: {batch:?}")
        };
        let left_out = left_out.as_ref().expect("it is cut");
        let shown = detail.split("\n[").next().unwrap_or_default();
        assert_eq!(shown, &whole[..APPROVAL_DETAIL_BYTES_MAX]);
        assert_eq!(
            (left_out.lines, left_out.bytes as usize),
            (1, whole.len() - shown.len())
        );
        bench.cancel.cancel();
        assert!(!asking.await.expect("it ends"));
    }

    #[tokio::test]
    async fn a_no_needs_no_digest() {
        let mut bench = bench(true, Duration::from_secs(60));
        let asking = bench.ask_about(&"x\n".repeat(APPROVAL_DETAIL_BYTES_MAX));
        let id = bench.asked().await;
        let no = ApprovalAnswer {
            approve: false,
            ..yes("right", None)
        };
        bench.approver.approvals.answer(&id, &no).expect("the secret is right");
        assert!(!asking.await.expect("it ends"));
    }
}
