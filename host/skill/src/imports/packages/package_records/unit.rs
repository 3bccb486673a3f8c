//! Records of projects that a model has written into, with an npm that is a small script.

use std::sync::Arc;

use super::*;
use crate::NoApprover;
use crate::imports::git::testing::ScriptedApproval;
use crate::imports::packages::install_packages;
use crate::imports::recipe::testing::Project;
use crate::imports::{HostServices, MachineServices};
use crate::stage;
use tool_boundary::bindings::tool::skill::packages::Request;
use tool_boundary::bindings::tool::skill::tests::Report;

const ALLOWED: &[&str] = &["install"];

fn project(manifest: &str) -> Project {
    let project = Project::new();
    project.tool("npm", "touch ran");
    project.write("package.json", manifest);
    project
}

fn ran(project: &Project) -> bool {
    project.root().join("ran").exists()
}

fn npm(context: &CallContext, names: &[&str]) -> Result<Report, Failure> {
    let request = Request {
        recipe: "npm-install".to_owned(),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        dev: false,
    };
    install_packages(context, &request)
}

/// Writes a file as a call of the session does, whose model has read it.
fn write(context: &CallContext, path: &str, content: &str) {
    if let Ok(before) = std::fs::read(context.repository.root().join(path)) {
        lock_files(context).seen.insert(path.to_owned(), sha256_hex(&before));
    }
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let staged = folder.path().join(path);
    std::fs::create_dir_all(staged.parent().expect("it has a parent")).expect("folders can be made");
    std::fs::write(staged, content).expect("files can be written");
    let services = MachineServices::new(folder.path(), HostServices::default());
    let left = stage::StageContent {
        stage: folder.path(),
        deletions: &[],
        terms: &stage::ProposalTerms::default(),
    };
    stage::commit_stage(context, &services, left).expect("it may be written");
}

/// The lines of the last question that are about packages beside the named ones.
fn beside(project: &Project) -> String {
    let questions = project.user.questions();
    let question = questions.last().expect("somebody was asked");
    let lines = question.detail().lines().filter(|line| {
        line.starts_with("    ") || line.starts_with("changed in") || line.starts_with("installed as well")
    });
    format!("{}\n{}", question.title(), lines.collect::<Vec<_>>().join("\n"))
}

const EVIL: &str = r#"{"name": "x", "version": "1.0.0", "dependencies": {"evil-typosquat": "6.6.6"}}"#;
const PLAIN: &str = r#"{"name": "x", "version": "1.0.0"}"#;

#[test]
fn the_question_names_all_that_package_json_lists_and_that_is_not_there() {
    let project = project(
        r#"{
            "dependencies": {"lodash": "^4", "here": "^1.0.0", "other": "git+https://evil.example/x.git#main"},
            "devDependencies": {"../here": "1", "line\nbreak\u202e": "\u001b[2J1"},
            "optionalDependencies": {"left": "file:../left"},
            "peerDependencies": {"peer": ">=1 || 2", "perhaps": "1"},
            "peerDependenciesMeta": {"perhaps": {"optional": true}}
        }"#,
    );
    project.write("node_modules/here/package.json", "{}");
    npm(&project.context(&[]), &["lodash"]).expect("the user agrees");
    insta::assert_snapshot!(beside(&project), @r"
    Install with npm: lodash, and 5 more that package.json lists
    installed as well, because package.json lists it and it is not there yet:
        other 'git+https://evil.example/x.git#main' (dependencies)
        ../here 1 (devDependencies)
        'line<U+000A>break<U+202E>' '<U+001B>[2J1' (devDependencies)
        left file:../left (optionalDependencies)
        peer '>=1 || 2' (peerDependencies)
    ");
}

#[test]
fn what_a_session_put_into_package_json_takes_a_yes_although_installing_is_allowed() {
    let project = project(PLAIN);
    let context = project.context(ALLOWED);
    npm(&context, &["lodash"]).expect("it is allowed");
    assert!(project.user.questions().is_empty());
    write(&context, "package.json", EVIL);
    // Putting a package in its place by hand hides nothing.
    project.write("node_modules/evil-typosquat/package.json", "{}");
    npm(&context, &["lodash"]).expect("the user agrees");
    assert_eq!(
        beside(&project),
        "Install with npm: lodash\nchanged in this session, and npm installs what they say: `package.json`"
    );
    npm(&context, &["lodash"]).expect("it is allowed");
    assert_eq!(project.user.questions().len(), 1, "that was answered");
    write(&context, "package.json", PLAIN);
    npm(&context, &["lodash"]).expect("the user agrees");
    assert_eq!(project.user.questions().len(), 2, "that is another one");
}

#[test]
fn where_nobody_can_be_asked_it_is_refused_until_it_is_taken_back() {
    let project = project(PLAIN);
    let mut context = project.context(ALLOWED);
    context.approver = Arc::new(NoApprover);
    write(&context, "package.json", EVIL);
    let refused = npm(&context, &["lodash"]).expect_err("nobody has seen it");
    insta::assert_snapshot!(format!("{}: {}\n{}", refused.kind.code(), refused.message, refused.hint.unwrap_or_default()), @r"
    denied: npm would install what this session has written into `package.json`, which the user was not asked about.
    take the change back and name the packages in the call, which records them by itself; in a session on a terminal the user is asked
    ");
    npm(&context, &["lodash", "evil-typosquat"]).expect_err("a name says nothing of what a record asks for");
    assert!(!ran(&project));
    // Fields that do not matter to installations may change.
    let scripts = PLAIN.replace('}', r#", "scripts": {"test": "jest"}, "jest": {}}"#);
    write(&context, "package.json", &scripts);
    npm(&context, &["lodash"]).expect("it is as it was");
    assert!(ran(&project));
}

#[test]
fn whatever_npm_may_read_is_seen_by_somebody_where_the_session_wrote_it() {
    for (path, is_record) in [
        ("package-lock.json", true),
        ("npm-shrinkwrap.json", true),
        ("yarn.lock", true),
        ("packages/deep/package.json", true),
        ("a/b/Package.JSON", true),
        ("lib/x.tgz", true),
        ("node_modules/here/package.json", true),
        ("node_modules/.package-lock.json", true),
        ("app.js", false),
        ("lib/package.json.md", false),
    ] {
        let project = project(r#"{"workspaces": ["**/**"], "dependencies": {"mine": "a/b/mine"}}"#);
        let mut context = project.context(ALLOWED);
        context.approver = Arc::new(NoApprover);
        write(&context, path, r#"{"dependencies": {"evil": "1"}}"#);
        let refused = npm(&context, &["lodash"]).err().map(|refused| refused.message);
        let expected = format!("written into `{path}`");
        assert_eq!(refused.is_some(), is_record, "{path}: {refused:?}");
        assert!(refused.is_none_or(|message| message.contains(&expected)), "{path}");
        assert_eq!(ran(&project), !is_record, "{path}");
    }
}

#[test]
fn what_installations_record_is_no_addition_of_the_sessions() {
    let project = project(PLAIN);
    let recorded = EVIL.replace("evil-typosquat", "lodash");
    project.tool(
        "npm",
        &format!("echo '{recorded}' > package.json; echo '{{}}' > package-lock.json"),
    );
    let context = project.context(ALLOWED);
    // The user says yes to what the session put there, and what npm makes of it is covered.
    write(&context, "package.json", EVIL);
    write(&context, "package-lock.json", "{\"lockfileVersion\": 3}");
    for _ in 0..3 {
        npm(&context, &["lodash"]).expect("it is allowed");
    }
    assert_eq!(project.user.questions().len(), 1);
}

#[test]
fn an_answer_holds_for_what_was_read() {
    let written = ["package.json", "package-lock.json", "yarn.lock"].map(|path| (path, EVIL));
    // A record that was written and taken back may have been read in between.
    for (path, text) in written.into_iter().chain([("package.json", PLAIN)]) {
        let project = project(PLAIN);
        let mut context = project.context(&[]);
        let place = project.root().join(path);
        context.approver = ScriptedApproval::after(true, move || {
            let _ = std::fs::remove_file(&place);
            std::fs::write(&place, text).expect("files can be written");
        });
        let refused = npm(&context, &["lodash"]).expect_err("it is another file by now");
        assert!(
            refused.message.starts_with("What npm would install has changed"),
            "{}",
            refused.message
        );
        assert!(!ran(&project));
    }
}

#[test]
fn a_manifest_that_only_npm_can_read_is_said_to_be_one() {
    let project = project("<<<<<<< ours\n{}\n");
    let context = project.context(&[]);
    let beside = ExtraPackages::read(&context, &[]).expect("nobody cancels");
    assert_eq!(
        beside.notes()[0],
        "package.json cannot be read, so its list of packages is unknown"
    );
}

/// `INSTALL_LISTED_MAX` and `INSTALL_LISTED_CHARS_MAX`.
#[test]
fn a_question_names_so_many_packages() {
    let many: Vec<String> = (0..INSTALL_LISTED_MAX + 2)
        .map(|index| format!(r#""p{index}": "1""#))
        .collect();
    let long = "x".repeat(INSTALL_LISTED_CHARS_MAX);
    let project = project(&format!(
        r#"{{"dependencies": {{"a": "{long}", {}}}}}"#,
        many.join(", ")
    ));
    npm(&project.context(&[]), &["lodash"]).expect("the user agrees");
    let said = beside(&project);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines[0],
        "Install with npm: lodash, and 103 more that package.json lists"
    );
    assert!(
        lines[2].starts_with("    a x") && lines[2].contains("x… (402 characters) ("),
        "{}",
        lines[2]
    );
    assert_eq!(lines.len(), 2 + INSTALL_LISTED_MAX + 1);
    assert_eq!(lines.last(), Some(&"    and 3 more"));
}

/// `INSTALL_RECORDS_MAX`, `INSTALL_RECORD_BYTES_MAX` and `INSTALL_MANIFEST_BYTES_MAX`.
#[test]
fn records_are_compared_up_to_a_bound() {
    let project = project(PLAIN);
    let context = project.context(ALLOWED);
    let lock_file = std::fs::File::create(project.root().join("package-lock.json")).expect("files can be made");
    lock_files(&context)
        .package_records
        .insert("package-lock.json".to_owned(), Some(sha256_hex(b"")));
    let changed = || ExtraPackages::read(&context, &[]).expect("nobody cancels").changed;
    assert!(changed().is_empty());
    lock_file.set_len(INSTALL_RECORD_BYTES_MAX + 1).expect("it is sparse");
    assert_eq!(changed(), ["package-lock.json"]);
    let records: BTreeMap<String, Option<String>> = (0..INSTALL_RECORDS_MAX + 2)
        .map(|index| (format!("p/{index:05}/package.json"), None))
        .collect();
    lock_files(&context).package_records = records;
    assert_eq!(changed(), ["p/01000/package.json", "p/01001/package.json"]);
    // A field that is nothing to installations is something where the manifest is too large to be taken apart.
    let manifest = |spaces: usize| format!("{{\"scripts\": {{}}{}}}", " ".repeat(spaces)).into_bytes();
    let bound = INSTALL_MANIFEST_BYTES_MAX;
    assert_eq!(essence_digest(MANIFEST, &manifest(0)), essence_digest(MANIFEST, b"{}"));
    assert_eq!(
        essence_digest(MANIFEST, &manifest(bound - 16)),
        essence_digest(MANIFEST, b"{}")
    );
    assert_ne!(
        essence_digest(MANIFEST, &manifest(bound)),
        essence_digest(MANIFEST, b"{}")
    );
}
