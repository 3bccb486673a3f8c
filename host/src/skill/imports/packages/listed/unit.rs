//! Records of projects that a model has written into, with an npm that is a small script.

use std::sync::Arc;

use super::*;
use crate::skill::Nobody;
use crate::skill::bindings::tool::skill::packages::Request;
use crate::skill::bindings::tool::skill::tests::Report;
use crate::skill::imports::git::testing::Answer;
use crate::skill::imports::packages::install;
use crate::skill::imports::recipe::testing::Project;
use crate::skill::stage;

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
    install(context, &request)
}

/// Writes a file as a call of the session does, whose model has read it.
fn write(context: &CallContext, path: &str, content: &str) {
    if let Ok(before) = std::fs::read(context.repository.root().join(path)) {
        lock(context).seen.insert(path.to_owned(), digest(&before));
    }
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let staged = folder.path().join(path);
    std::fs::create_dir_all(staged.parent().expect("it has a parent")).expect("folders can be made");
    std::fs::write(staged, content).expect("files can be written");
    stage::commit(context, folder.path(), &[]).expect("it may be written");
}

/// The lines of the last question that are about packages beside the named ones.
fn beside(project: &Project) -> String {
    let questions = project.user.questions();
    let question = questions.last().expect("somebody was asked");
    let lines = question.detail.lines().filter(|line| {
        line.starts_with("    ") || line.starts_with("changed in") || line.starts_with("installed as well")
    });
    format!("{}\n{}", question.title, lines.collect::<Vec<_>>().join("\n"))
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
            "peerDependenciesMeta": {"perhaps": {"optional": true}},
            "overrides": {"deep": {".": "1", "within@2": "npm:evil@1"}, "here": "2"}
        }"#,
    );
    project.write("node_modules/here/package.json", "{}");
    npm(&project.context(&[]), &["lodash"]).expect("the user agrees");
    insta::assert_snapshot!(beside(&project), @r"
    Install with npm: lodash, and 7 more that the repository lists
    installed as well, because the repository lists it and it is new or not there yet:
        other 'git+https://evil.example/x.git#main' (package.json, dependencies)
        ../here 1 (package.json, devDependencies)
        'line\u{a}break\u{202e}' '\u{1b}[2J1' (package.json, devDependencies)
        left file:../left (package.json, optionalDependencies)
        'deep > .' 1 (package.json, overrides)
        'deep > within@2' npm:evil@1 (package.json, overrides)
        peer '>=1 || 2' (package.json, peerDependencies)
    ");
}

#[test]
fn what_a_lock_file_notes_otherwise_is_named_although_a_package_of_that_name_is_there() {
    let project = project(r#"{"dependencies": {"a": "https://evil.example/a.tgz", "b": "^1"}}"#);
    for name in ["a", "b"] {
        project.write(&format!("node_modules/{name}/package.json"), "{}");
    }
    let attempt = || npm(&project.context(&[]), &["lodash"]).expect("the user agrees");
    attempt();
    assert_eq!(beside(&project), "Install with npm: lodash\n");
    project.write(
        "package-lock.json",
        r#"{"packages": {"": {"dependencies": {"a": "^1", "b": "^1"}}, "node_modules/a": {"version": "1.0.0"}}}"#,
    );
    attempt();
    insta::assert_snapshot!(beside(&project), @r"
    Install with npm: lodash, and 1 more that the repository lists
    installed as well, because the repository lists it and it is new or not there yet:
        a https://evil.example/a.tgz (package.json, dependencies)
    ");
}

#[test]
fn what_a_session_put_into_package_json_takes_a_yes_although_installing_is_allowed() {
    let project = project(PLAIN);
    let context = project.context(ALLOWED);
    npm(&context, &["lodash"]).expect("it is allowed");
    assert!(project.user.questions().is_empty());
    write(&context, "package.json", EVIL);
    // Whoever puts a package in its place by hand hides nothing.
    project.write("node_modules/evil-typosquat/package.json", "{}");
    npm(&context, &["lodash"]).expect("the user agrees");
    insta::assert_snapshot!(beside(&project), @r"
    Install with npm: lodash, and 1 more that the repository lists
    changed in this session: `package.json`
    installed as well, because the repository lists it and it is new or not there yet:
        evil-typosquat 6.6.6 (package.json, dependencies; new in this session)
    ");
    npm(&context, &["lodash"]).expect("it is allowed");
    assert_eq!(project.user.questions().len(), 1, "that was answered");
}

#[test]
fn where_nobody_can_be_asked_it_is_refused_unless_the_call_names_it() {
    let project = project(PLAIN);
    let mut context = project.context(ALLOWED);
    context.approver = Arc::new(Nobody);
    write(&context, "package.json", EVIL);
    let refused = npm(&context, &["lodash"]).expect_err("nobody has seen it");
    insta::assert_snapshot!(format!("{}: {}\n{}", refused.code, refused.message, refused.hint.unwrap_or_default()), @r"
    denied: npm would also install what this session has put into `package.json`, which nobody was asked about: `evil-typosquat`.
    take the change back, or name each of them in the call, which counts where its version is the registry's; in a session on a terminal the user is asked
    ");
    assert!(!ran(&project));
    npm(&context, &["lodash", "evil-typosquat"]).expect("it is named");
    assert!(ran(&project));
    // A name says nothing of an address.
    write(
        &context,
        "package.json",
        &EVIL.replace("6.6.6", "https://evil.example/x.tgz"),
    );
    npm(&context, &["evil-typosquat@6.6.6"]).expect_err("that is another package");
    write(
        &context,
        "package.json",
        &EVIL.replace("dependencies", "devDependencies"),
    );
    npm(&context, &["lodash"]).expect("it only moved");
}

#[test]
fn what_a_session_put_into_a_lock_file_is_seen_by_somebody() {
    let locks = [
        (
            "package-lock.json",
            r#"{"packages": {"node_modules/lodash": {"version": "4.0.0", "resolved": "https://registry.example/evil/-/evil-1.tgz"}}}"#,
        ),
        (
            "package-lock.json",
            r#"{"packages": {"node_modules/old": {"version": "1.0.0", "dependencies": {"evil": "1"}}}}"#,
        ),
        (
            "npm-shrinkwrap.json",
            r#"{"dependencies": {"old": {"version": "1.0.0", "requires": {"evil": "1"}}}}"#,
        ),
        (
            "yarn.lock",
            "lodash@^4:\n  version \"4.0.0\"\n  resolved \"https://registry.example/evil/-/evil-1.tgz\"\n",
        ),
    ];
    for (path, content) in locks {
        let project = project(PLAIN);
        let context = project.context(ALLOWED);
        project.write(
            "package-lock.json",
            r#"{"packages": {"node_modules/old": {"version": "1.0.0"}}}"#,
        );
        write(&context, "app.js", "1\n");
        npm(&context, &["lodash"]).expect("it is allowed");
        assert!(project.user.questions().is_empty());
        write(&context, path, content);
        npm(&context, &["lodash"]).expect("the user agrees");
        let said = beside(&project);
        assert!(said.contains(&format!("changed in this session: `{path}`")), "{said}");
        assert!(
            said.contains("evil") && said.contains("; new in this session)"),
            "{said}"
        );
    }
}

#[test]
fn what_installations_record_is_no_addition_of_the_sessions() {
    let project = project(PLAIN);
    let recorded = EVIL.replace("evil-typosquat", "lodash");
    project.tool("npm", &format!("echo '{recorded}' > package.json; echo '{{\"packages\": {{\"node_modules/x\": {{}}}}}}' > package-lock.json"));
    let context = project.context(ALLOWED);
    write(&context, "app.js", "1\n");
    for _ in 0..2 {
        npm(&context, &["lodash"]).expect("it is allowed");
    }
    assert!(project.user.questions().is_empty());
}

#[test]
fn workspaces_and_packages_of_the_repository_count_as_well() {
    let manifest = |more: &str| format!(r#"{{"dependencies": {{{more}}}}}"#);
    let project = project(r#"{"workspaces": ["packages/*", "apps/**"], "dependencies": {"mine": "file:lib/mine"}}"#);
    for path in ["packages/a", "apps/deep/b", "lib/mine", "lib/further", "unrelated"] {
        project.write(&format!("{path}/package.json"), &manifest(""));
        let context = project.context(ALLOWED);
        write(&context, "app.js", path);
        let more = match path {
            "lib/mine" => r#""further": "../further""#.to_owned(),
            path => format!(r#""evil-{}": "1""#, path.replace('/', "-")),
        };
        write(&context, &format!("{path}/package.json"), &manifest(&more));
        let before = project.user.questions().len();
        npm(&context, &["lodash"]).expect("the user agrees");
        assert_eq!(project.user.questions().len() > before, path != "unrelated", "{path}");
    }
    insta::assert_snapshot!(beside(&project), @r"
    Install with npm: lodash, and 5 more that the repository lists
    changed in this session: `lib/further/package.json`
    installed as well, because the repository lists it and it is new or not there yet:
        evil-lib-further 1 (lib/further/package.json, dependencies; new in this session)
        evil-apps-deep-b 1 (apps/deep/b/package.json, dependencies)
        further ../further (lib/mine/package.json, dependencies)
        mine file:lib/mine (package.json, dependencies)
        evil-packages-a 1 (packages/a/package.json, dependencies)
    ");
}

#[test]
fn an_answer_holds_for_what_was_read() {
    let written = ["package.json", "package-lock.json", "yarn.lock"].map(|path| (path, EVIL));
    // What was written and taken back may have been read in between.
    for (path, text) in written.into_iter().chain([("package.json", PLAIN)]) {
        let project = project(PLAIN);
        let mut context = project.context(&[]);
        let place = project.root().join(path);
        context.approver = Answer::after(true, move || {
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
fn a_record_that_only_npm_can_read_is_refused() {
    let project = project(PLAIN);
    project.write("package-lock.json", "<<<<<<< ours\n{}\n");
    let refused = npm(&project.context(ALLOWED), &["lodash"]).expect_err("nobody knows what it lists");
    insta::assert_snapshot!(refused.message, @"It is not known what `package-lock.json` lists: it is not valid JSON (expected value at line 1 column 1).");
    assert!(!ran(&project));
}

/// `INSTALL_LISTED_MAX` and `INSTALL_LISTED_CHARS_MAX`.
#[test]
fn a_question_names_so_many_packages_and_the_sessions_first() {
    let project = project(PLAIN);
    let many: Vec<String> = (0..limits::INSTALL_LISTED_MAX + 2)
        .map(|index| format!(r#""p{index}": "1""#))
        .collect();
    let manifest = |more: &str| format!(r#"{{"dependencies": {{{}{more}}}}}"#, many.join(", "));
    project.write("package.json", &manifest(""));
    let context = project.context(&[]);
    let long = "x".repeat(limits::INSTALL_LISTED_CHARS_MAX);
    write(&context, "package.json", &manifest(&format!(r#", "zz": "{long}""#)));
    npm(&context, &["lodash"]).expect("the user agrees");
    let said = beside(&project);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines[0],
        "Install with npm: lodash, and 103 more that the repository lists"
    );
    assert!(
        lines[3].starts_with("    zz x") && lines[3].contains("x… (403 characters) ("),
        "{}",
        lines[3]
    );
    assert_eq!(lines.len(), 3 + limits::INSTALL_LISTED_MAX + 1);
    assert_eq!(lines.last(), Some(&"    and 3 more"));
}

/// `INSTALL_RECORDS_MAX` and `INSTALL_RECORDS_BYTES_MAX`.
#[test]
fn records_are_bounded_in_number_and_size() {
    let project = project(r#"{"workspaces": ["packages/*"]}"#);
    let context = project.context(ALLOWED);
    let lock = std::fs::File::create(project.root().join("package-lock.json")).expect("files can be made");
    // Together with the manifest.
    lock.set_len(limits::INSTALL_RECORDS_BYTES_MAX).expect("it is sparse");
    let refused = npm(&context, &["lodash"]).expect_err("they are too large");
    assert_eq!(
        (&*refused.code, &*refused.message),
        (
            "limit",
            "The records of packages that npm reads here are more than 32 MiB."
        )
    );
    std::fs::remove_file(project.root().join("package-lock.json")).expect("it is there");
    for index in 0..limits::INSTALL_RECORDS_MAX {
        project.write(&format!("packages/{index}/package.json"), "{}");
    }
    let refused = npm(&context, &["lodash"]).expect_err("they are too many");
    assert_eq!(
        (&*refused.code, &*refused.message),
        (
            "limit",
            "The records of packages that npm reads here are more than 1000 files."
        )
    );
    assert!(!ran(&project));
}
