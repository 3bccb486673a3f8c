//! `tool config` and `tool doctor`: what is set, and what works.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::json;
use tool_model_server::Round;

use super::{json_of, prompts, small_repository, words_of_lines};
use crate::documents::read_page;
use crate::providers::scripted;
use crate::support::{Home, finish};

#[test]
fn config_says_where_each_setting_comes_from_and_starts_nothing() {
    let home = Home::empty();
    let text = "[providers.hosted]\nenabled = true\napi_key = \"of-the-file-123\"\n[logging]\nlevel = \"WARN\"\n";
    fs::write(home.path().join("config.toml"), text).expect("the folder is writable");
    fs::set_permissions(home.path().join("config.toml"), fs::Permissions::from_mode(0o644)).expect("it is ours");
    let repository = small_repository();
    let mut command = home.tool(repository.path(), &["config", "--repo", "."]);
    command
        .env("HOSTED_API_KEY", "12345678")
        .env("HOSTED_MODEL", "some-model");
    let shown = finish(command.output().expect("it runs")).expect(0);
    let settings = words_of_lines(&shown.stdout);
    for line in [
        "providers.hosted.model some-model from HOSTED_MODEL",
        "providers.hosted.api_key set, 8 characters, from HOSTED_API_KEY",
        "server.port 0 from TOOL_BACKEND_PORT",
        "server.auth same-user default",
    ] {
        assert!(
            settings.iter().any(|other| other == line),
            "{line} is missing in\n{}",
            shown.stdout
        );
    }
    let from_file = format!("from {}", home.path().join("config.toml").display());
    let level = shown.stdout.lines().find(|line| line.starts_with("logging.level"));
    assert!(
        level.is_some_and(|line| line.contains("WARN") && line.ends_with(&from_file)),
        "{level:?}"
    );
    let repository_line = shown.stdout.lines().find(|line| line.starts_with("repository"));
    assert!(
        repository_line.is_some_and(|line| line.ends_with("from --repo")),
        "{repository_line:?}"
    );
    assert!(
        shown.stderr.contains("may be read by others (mode 644)"),
        "{}",
        shown.stderr
    );
    assert!(!format!("{shown:?}").contains("of-the-file"), "{shown:?}");
    assert!(!home.path().join("backend.json").exists());
}

/// Each setting is in the table of the book, with its default.
#[test]
fn every_key_is_in_the_book() {
    let shown = json_of(&Home::offline().run(Path::new("/"), &["config", "--json"]).expect(0));
    let page = read_page("configuration.md");
    let (_, table) = page.split_once("## Keys\n").expect("the page has a table");
    let (table, _) = table.split_once("\n```toml").expect("the table ends");
    let named: Vec<&str> = table.split('`').skip(1).step_by(2).collect();
    for setting in shown["settings"].as_array().expect("a list") {
        let key = setting["key"].as_str().expect("a key");
        let key = ["hosted", "local", "router"].iter().fold(key.to_owned(), |key, name| {
            key.replace(&format!("providers.{name}."), "providers.NAME.")
        });
        // These are no keys of the file.
        if !["home", "repository"].contains(&key.as_str()) {
            assert!(named.contains(&key.as_str()), "`{key}` is missing");
        }
    }
}

#[test]
fn config_helps_where_the_configuration_is_missing_or_wrong() {
    let nowhere = Path::new("/");
    let missing = Home::empty().run(nowhere, &["config"]).expect(2);
    assert!(missing.stdout.contains("config.toml  (missing)"), "{}", missing.stdout);
    let url = "providers.local.url http://127.0.0.1:1234/v1 default".to_owned();
    assert!(words_of_lines(&missing.stdout).contains(&url), "{}", missing.stdout);
    assert!(
        missing
            .stderr
            .starts_with("[error] Configuration file not found: ~/.tool/config.toml\nhint: run `tool init`")
    );

    let broken = Home::configured("[providers.local]\nenabled = yes\n")
        .run(nowhere, &["config", "--json"])
        .expect(2);
    let broken = json_of(&broken);
    assert_eq!(broken["state"], "broken");
    assert_eq!(
        broken["problem"]["message"],
        "Failed to parse config: Invalid TOML syntax"
    );

    let two = "[providers.local]\nenabled = true\n[providers.router]\nenabled = true\n";
    let two = Home::configured(two).run(nowhere, &["config"]).expect(2);
    assert!(
        words_of_lines(&two.stdout)
            .iter()
            .any(|line| line.starts_with("providers.router.enabled true ")),
        "{}",
        two.stdout
    );
    assert!(
        two.stderr
            .contains("More than one provider is enabled: local and router"),
        "{}",
        two.stderr
    );
}

#[test]
fn a_key_that_others_may_read_is_a_warning_before_an_operation() {
    let (server, home) = scripted([Round::text("Fine.")]);
    let place = home.path().join("config.toml");
    let mut text = fs::read_to_string(&place).expect("it is there");
    text.push_str("api_key = \"k\"\n");
    fs::write(&place, text).expect("it is writable");
    fs::set_permissions(&place, fs::Permissions::from_mode(0o640)).expect("it is ours");
    let repository = small_repository();
    let finished = home.run(repository.path(), &["explain", "."]).expect(0);
    assert!(finished.stderr.starts_with("[warning] `"), "{}", finished.stderr);
    assert!(finished.stderr.contains("hint: chmod 600 '"), "{}", finished.stderr);
    assert_eq!(prompts(&server).len(), 1);
}

#[test]
fn doctor_examines_in_order_and_starts_nothing() {
    let home = Home::offline();
    let repository = small_repository();
    let finished = home.run(repository.path(), &["doctor"]).expect(0);
    let names: Vec<&str> = finished
        .stdout
        .lines()
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| Some(line.get(6..21)?.trim_end()))
        .collect();
    assert_eq!(
        names,
        [
            "configuration",
            "home",
            "home disk",
            "repository disk",
            "backend",
            "key",
            "provider",
            "skills",
            "repository",
            "python",
            "node",
            "tests",
            "sandbox",
            "helpers",
            "program"
        ],
        "{}",
        finished.stdout
    );
    assert!(!home.path().join("backend.json").exists());
    let report = home.run(repository.path(), &["doctor", "--json"]).expect(0);
    let checks = json_of(&report)["checks"].clone();
    let of = |name: &str| {
        let mut all = checks.as_array().expect("a list").iter();
        all.find(|check| check["name"] == name).cloned().unwrap_or_default()
    };
    assert_eq!(
        of("skills"),
        json!({"name": "skills", "status": "ok", "detail": "12 ready"})
    );
    assert_eq!(of("repository")["fix"], "git init");
}

#[test]
fn doctor_finds_what_is_wrong_and_says_what_mends_it() {
    let repository = small_repository();
    let missing = Home::empty().run(repository.path(), &["doctor"]).expect(2);
    assert!(
        missing
            .stdout
            .starts_with("fail  configuration   Configuration file not found"),
        "{}",
        missing.stdout
    );
    assert!(missing.stdout.contains("hint: run `tool init`"), "{}", missing.stdout);

    // Nothing listens on the port of a server that has gone.
    let (server, home) = scripted([]);
    drop(server);
    let down = home.run(repository.path(), &["doctor"]).expect(1);
    assert!(
        down.stdout
            .contains("\nfail  provider        Connection refused: 127.0.0.1:"),
        "{}",
        down.stdout
    );

    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let mut command = Home::offline().tool(repository.path(), &["doctor"]);
    let home = Home::offline();
    command.env("TOOL_HOME", home.path()).env("TOOL_BACKEND_PORT", &port);
    let finished = finish(command.output().expect("it runs")).expect(1);
    let expected = format!("fail  backend         not running, and port {port} is taken by another program");
    assert!(finished.stdout.contains(&expected), "{}", finished.stdout);
}

#[test]
fn doctor_looks_for_the_model_in_the_providers_list() {
    let (_server, home) = scripted([]);
    let repository = small_repository();
    let known = home.run(repository.path(), &["doctor"]).expect(0);
    assert!(
        known.stdout.contains("\nok    model           scripted\n"),
        "{}",
        known.stdout
    );
    home.run(
        repository.path(),
        &[
            "init",
            "--provider",
            "local",
            "--model",
            "unheard-of",
            "--url",
            &_server.url(),
        ],
    )
    .expect(0);
    let unknown = home.run(repository.path(), &["doctor"]).expect(0);
    assert!(
        unknown
            .stdout
            .contains("\nwarn  model           `unheard-of` is not among the"),
        "{}",
        unknown.stdout
    );
    assert!(
        unknown
            .stdout
            .contains("hint: tool init --provider local --model MODEL"),
        "{}",
        unknown.stdout
    );
}

#[test]
fn doctor_probes_what_the_provider_can_do() {
    let (_server, home) = scripted([]);
    let repository = small_repository();
    let finished = home.run(repository.path(), &["doctor", "--probe", "--json"]).expect(1);
    let report = json_of(&finished)["probe"]["checks"].clone();
    let names: Vec<&str> = report
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|check| check["name"].as_str())
        .collect();
    let all = [
        "streaming",
        "one tool",
        "parallel tools",
        "empty arguments",
        "context size",
        "models",
    ];
    assert_eq!(names, all);
    assert_eq!(report[0]["verdict"], "fails", "the script has no round for it");
    let shown = home.run(repository.path(), &["doctor", "--probe"]).expect(1);
    assert!(shown.stdout.contains("\nfail  streaming       "), "{}", shown.stdout);
    assert!(shown.stdout.contains("\nok    models          "), "{}", shown.stdout);
    let analyst = Home::offline().run(repository.path(), &["doctor", "--probe"]).expect(0);
    assert!(
        analyst.stdout.contains("\nok    parallel tools  "),
        "{}",
        analyst.stdout
    );
}
