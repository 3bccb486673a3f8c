//! Signatures: by our own keys, by openssl's, in files and in a registry.

use std::path::{Path, PathBuf};

use super::registry::{Registry, push, skill};
use super::{changed, entry, text};
use crate::support::{Home, holds, run};
use tempfile::TempDir;

/// Keys of one signer.
struct Keys {
    folder: TempDir,
}

impl Keys {
    fn new() -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let home = Home::empty();
        let made = skill(&home, &["keys", "new", "--out", text(&folder.path().join("team"))]).expect(0);
        holds(
            &made.stdout,
            &[
                "team.key, the private key",
                "team.pub, the public key",
                "[skills.identities]\n  NAME = \"/",
            ],
        );
        Self { folder }
    }

    fn private(&self) -> PathBuf {
        self.folder.path().join("team.key")
    }

    fn public(&self) -> PathBuf {
        self.folder.path().join("team.pub")
    }
}

/// A home in which these people's signatures count.
fn home_of(required: bool, identities: &[(&str, &Path)]) -> Home {
    let mut config = format!(
        "[providers.local]\nurl = \"builtin:analyst\"\nenabled = true\n\n[skills]\nrequire_signature = {required}\n\n\
         [skills.identities]\n"
    );
    for (name, key) in identities {
        config += &format!("{name} = {:?}\n", text(key));
    }
    Home::configured(&config)
}

#[test]
fn a_configuration_may_require_signatures() {
    let (ada, bob) = (Keys::new(), Keys::new());
    let home = home_of(true, &[("ada", &ada.public())]);
    // It says: require_signature = true, and whose counts in [skills.identities].
    let (_folder, component) = changed("echo", &[]);
    let add = |home: &Home| skill(home, &["add", text(&component), "--yes"]);
    holds(
        &add(&home).expect(1).stderr,
        &["`echo` is not signed, and a signature is required"],
    );
    let sign = |keys: &Keys| skill(&home, &["sign", text(&component), "--key", text(&keys.private())]);
    sign(&bob).expect(0);
    holds(&add(&home).expect(1).stderr, &["`echo` is not signed by `ada`"]);
    let signed = sign(&ada).expect(0);
    holds(&signed.stdout, &["Signed echo 1.0.0 with the digest ", "echo.wasm.sig"]);
    let added = add(&home).expect(0);
    holds(&added.stderr, &["signed   by ada"]);
    // It goes with the component, so that it can be looked at again.
    assert!(home.path().join("skills/echo.wasm.sig").exists());
    skill(&home, &["trust", "echo", "--yes"]).expect(0);
    // Another component under the same signature.
    let (_other, newer) = changed(
        "echo",
        &[("Answers with its arguments.", "Answers with all arguments.")],
    );
    std::fs::copy(&newer, &component).expect("the folder is writable");
    holds(
        &add(&home).expect(1).stderr,
        &["the signature of `echo` by `ada` is for another component: sha256:"],
    );
    std::fs::write(component.with_extension("wasm.sig"), "{}").expect("the folder is writable");
    holds(&add(&home).expect(1).stderr, &["is no signature"]);
    // A key in the text of the configuration, and one that is none.
    let pem = std::fs::read_to_string(ada.public()).expect("it is there");
    let config = std::fs::read_to_string(home.path().join("config.toml")).expect("it is there");
    let inline = config.replace(&format!("{:?}", text(&ada.public())), &format!("\"\"\"\n{pem}\"\"\""));
    std::fs::write(home.path().join("config.toml"), &inline).expect("the home is ours");
    sign(&ada).expect(0);
    add(&home).expect(0);
    std::fs::write(
        home.path().join("config.toml"),
        inline.replace("BEGIN PUBLIC", "BEGIN PRIVATE"),
    )
    .expect("the home is ours");
    holds(
        &add(&home).expect(2).stderr,
        &["`[skills.identities] ada` is no usable key"],
    );
}

#[test]
fn a_flag_requires_a_signature_where_the_configuration_does_not() {
    let (ada, home) = (Keys::new(), Home::offline());
    let (_folder, component) = changed("echo", &[]);
    let required = &["add", text(&component), "--yes", "--require-signature"];
    holds(&skill(&home, required).expect(1).stderr, &["no identity is configured"]);
    let home = home_of(false, &[("ada", &ada.public())]);
    holds(
        &skill(&home, required).expect(1).stderr,
        &["is not signed, and a signature is required"],
    );
    skill(&home, &["add", text(&component), "--yes"]).expect(0);
    skill(&home, &["sign", "echo", "--key", text(&ada.private())]).expect(0);
    skill(&home, &["trust", "echo", "--yes", "--require-signature"]).expect(0);
    for (key, code, told) in [
        (ada.public(), 1, "tool skill keys new"),
        (component.clone(), 1, "could not be read"),
        (PathBuf::from("/nowhere"), 2, "/nowhere"),
    ] {
        holds(
            &skill(&home, &["sign", "echo", "--key", text(&key)]).expect(code).stderr,
            &["[error]", told],
        );
    }
    let again = skill(&home, &["keys", "new", "--out", text(&ada.folder.path().join("team"))]).expect(2);
    holds(
        &again.stderr,
        &[
            "team.key` is there already",
            "hint: give the new pair another name: --out NAME",
        ],
    );
    let nowhere = skill(&home, &["keys", "new", "--out", "/nowhere/team"]).expect(2);
    holds(
        &nowhere.stderr,
        &["`/nowhere/team.key` could not be written\nhint: No such file"],
    );
}

#[test]
fn what_was_pinned_before_needs_the_signature_as_well() {
    let (ada, bob) = (Keys::new(), Keys::new());
    let home = home_of(false, &[("ada", &ada.public())]);
    let (_folder, component) = changed("echo", &[]);
    skill(&home, &["add", text(&component), "--yes"]).expect(0);
    let root = TempDir::new().expect("a temporary folder");
    let call = || home.run(root.path(), &["skill", "call", "echo", "{}"]);
    call().expect(0);
    // From now on it is required, also by a backend that runs.
    let place = home.path().join("config.toml");
    let config = std::fs::read_to_string(&place).expect("it is there");
    let configure = |from: &str, to: &str| {
        let config = config.replace("require_signature = false", "require_signature = true");
        std::fs::write(&place, config.replace(from, to)).expect("the home is ours");
    };
    let refused = |told: &str| {
        let state = entry(&home, "echo").expect("it is there");
        assert_eq!(state["state"], "unsigned", "{state}");
        holds(
            state["reason"].as_str().expect("a text"),
            &[told, "tool skill sign echo --key FILE"],
        );
        holds(&call().expect(1).stderr, &[told]);
    };
    configure("", "");
    refused("`echo` is not signed, and a signature is required");
    let sign = |keys: &Keys| skill(&home, &["sign", "echo", "--key", text(&keys.private())]).expect(0);
    // The list says who has signed the present component, whatever the pins say.
    let signer = || entry(&home, "echo").expect("it is there")["signature"]["by"].clone();
    sign(&bob);
    refused("`echo` is not signed by `ada`");
    assert_eq!(signer(), serde_json::Value::Null);
    sign(&ada);
    call().expect(0);
    assert_eq!(signer(), "ada");
    // The signer in the pins is not believed: neither if the signature is gone,
    skill(&home, &["trust", "echo", "--yes"]).expect(0);
    let signature = home.path().join("skills/echo.wasm.sig");
    let kept = std::fs::read(&signature).expect("it is there");
    std::fs::remove_file(&signature).expect("the home is ours");
    refused("`echo` is not signed, and a signature is required");
    std::fs::write(&signature, kept).expect("the home is ours");
    call().expect(0);
    // nor where its key counts no more: another one under the same name, in the same file.
    let mine = std::fs::read(ada.public()).expect("it is there");
    std::fs::copy(bob.public(), ada.public()).expect("the folder is writable");
    refused("`echo` is not signed by `ada`");
    std::fs::write(ada.public(), mine).expect("the folder is writable");
    call().expect(0);
    // If the required signature cannot be determined, no skill is used.
    configure(text(&ada.public()), "nowhere.pub");
    let state = entry(&home, "echo").expect("it is there");
    holds(
        state["reason"].as_str().expect("a text"),
        &["whether it needs a signature is not known"],
    );
}

/// openssl and we make and check the same signatures, in the form of cosign's keys and signatures.
#[test]
fn openssl_makes_and_checks_the_same_signatures() {
    let openssl = |folder: &Path, arguments: &[&str]| run(folder, Path::new("openssl"), arguments);
    let theirs = TempDir::new().expect("a temporary folder");
    openssl(
        theirs.path(),
        &[
            "ecparam",
            "-name",
            "prime256v1",
            "-genkey",
            "-noout",
            "-out",
            "sec1.key",
        ],
    );
    openssl(
        theirs.path(),
        &["pkcs8", "-topk8", "-nocrypt", "-in", "sec1.key", "-out", "team.key"],
    );
    openssl(
        theirs.path(),
        &["pkey", "-in", "team.key", "-pubout", "-out", "team.pub"],
    );
    let home = home_of(true, &[("openssl", &theirs.path().join("team.pub"))]);
    let (folder, component) = changed("echo", &[]);
    let old = skill(
        &home,
        &["sign", text(&component), "--key", text(&theirs.path().join("sec1.key"))],
    )
    .expect(1);
    holds(&old.stderr, &["openssl pkcs8 -topk8 -nocrypt"]);
    skill(
        &home,
        &["sign", text(&component), "--key", text(&theirs.path().join("team.key"))],
    )
    .expect(0);
    // Ours, checked by openssl.
    let bundle = component.with_extension("wasm.sig");
    let parts: serde_json::Value = serde_json::from_slice(&std::fs::read(&bundle).expect("it is there")).expect("JSON");
    for part in ["payload", "signature"] {
        std::fs::write(folder.path().join("in"), parts[part].as_str().expect("text")).expect("the folder is writable");
        openssl(folder.path(), &["base64", "-d", "-A", "-in", "in", "-out", part]);
    }
    let public = theirs.path().join("team.pub");
    let verify = [
        "dgst",
        "-sha256",
        "-verify",
        text(&public),
        "-signature",
        "signature",
        "payload",
    ];
    openssl(folder.path(), &verify);
    // Theirs, over a payload as cosign writes it, checked by us.
    let payload = std::fs::read_to_string(folder.path().join("payload")).expect("it is text");
    let payload = payload.replace(
        "\"docker-reference\":\"\"",
        "\"docker-reference\":\"registry.example.org/team/echo\"",
    );
    std::fs::write(
        folder.path().join("payload"),
        payload.replace("null", "{\"creator\":\"cosign\"}"),
    )
    .expect("the folder is writable");
    let private = theirs.path().join("team.key");
    openssl(
        folder.path(),
        &[
            "dgst",
            "-sha256",
            "-sign",
            text(&private),
            "-out",
            "signature",
            "payload",
        ],
    );
    let encoded = |part: &str| {
        openssl(folder.path(), &["base64", "-A", "-in", part, "-out", "out"]);
        std::fs::read_to_string(folder.path().join("out")).expect("it is text")
    };
    let theirs = serde_json::json!({"payload": encoded("payload"), "signature": encoded("signature")});
    std::fs::write(&bundle, theirs.to_string()).expect("the folder is writable");
    let added = skill(&home, &["add", text(&component), "--yes"]).expect(0);
    holds(&added.stderr, &["signed   by openssl"]);
}

#[test]
fn a_registry_keeps_signatures_beside_components_and_none_is_believed_by_its_tag() {
    let (registry, ada, bob) = (Registry::start(), Keys::new(), Keys::new());
    let author = Home::offline();
    let (_folder, component) = changed("echo", &[]);
    let place = registry.place("team/echo:1.0");
    push(&author, &component, &place);
    let home = home_of(true, &[("ada", &ada.public())]);
    let add = |place: &str| skill(&home, &["add", place, "--yes"]);
    holds(
        &add(&place).expect(1).stderr,
        &["is not signed, and a signature is required"],
    );
    for (keys, told) in [(&bob, Some("is not signed by `ada`")), (&ada, None)] {
        skill(&author, &["sign", text(&component), "--key", text(&keys.private())]).expect(0);
        let pushed = skill(&author, &["push", text(&component), &place]).expect(0);
        holds(&pushed.stdout, &["with its signature"]);
        match told {
            Some(told) => holds(&add(&place).expect(1).stderr, &[told]),
            None => holds(&add(&place).expect(0).stderr, &["signed   by ada"]),
        }
    }
    // The signature covers the digest of the component and not that of a manifest, a tag or a repository, so it counts
    // elsewhere, too.
    let elsewhere = registry.place("others/echo:2.0");
    push_signed(&author, &component, &elsewhere);
    holds(&add(&elsewhere).expect(0).stderr, &["signed   by ada"]);
    add(&place).expect(0);
    let bundle = std::fs::read_to_string(component.with_extension("wasm.sig")).expect("it is there");
    let kept = std::fs::read_to_string(home.path().join("skills/echo.wasm.sig")).expect("it is there");
    assert_eq!(kept, bundle);
    // Both signatures are there; the tag now means an unsigned component.
    let (_other, newer) = changed(
        "echo",
        &[("Answers with its arguments.", "Answers with all arguments.")],
    );
    push(&author, &newer, &place);
    holds(
        &skill(&home, &["update", "echo", "--yes"]).expect(1).stderr,
        &["is not signed, and a signature is required"],
    );
    // The old signature under the new component's name is for the old one.
    std::fs::copy(component.with_extension("wasm.sig"), newer.with_extension("wasm.sig"))
        .expect("the folder is writable");
    push_signed(&author, &newer, &place);
    holds(
        &skill(&home, &["update", "echo", "--yes"]).expect(1).stderr,
        &["the signature of `echo` by `ada` is for another component"],
    );
    let kept = entry(&home, "echo").expect("it is there");
    assert_eq!(
        (&kept["state"], &kept["description"]),
        (&"ready".into(), &"Answers with its arguments.".into())
    );
}

fn push_signed(home: &Home, component: &Path, place: &str) {
    let pushed = skill(home, &["push", text(component), place]).expect(0);
    holds(&pushed.stdout, &["with its signature"]);
}

#[test]
fn who_has_signed_is_shown_and_so_is_that_nobody_knows_them() {
    let (ada, bob) = (Keys::new(), Keys::new());
    let home = home_of(false, &[("ada", &ada.public())]);
    let (_folder, component) = changed("echo", &[]);
    let sign = |keys: &Keys| skill(&home, &["sign", text(&component), "--key", text(&keys.private())]).expect(0);
    let add = || skill(&home, &["add", text(&component), "--yes"]).expect(0).stderr;
    let listed = || skill(&home, &["list"]).expect(0).stdout;
    assert!(!add().contains("signed"), "nobody has signed it");
    assert!(!listed().contains("signed"), "nobody has signed it");
    sign(&bob);
    holds(&add(), &["  signed   by no identity in [skills.identities]"]);
    holds(&listed(), &["signed by no identity in [skills.identities]"]);
    assert_eq!(
        entry(&home, "echo").expect("it is there")["signature"],
        serde_json::json!({})
    );
    sign(&ada);
    holds(&add(), &["  signed   by ada"]);
    holds(&listed(), &["signed by ada"]);
    assert_eq!(entry(&home, "echo").expect("it is there")["signature"]["by"], "ada");
    // Without identities no signer is known.
    let other = Home::offline();
    let added = skill(&other, &["add", text(&component), "--yes"]).expect(0);
    holds(&added.stderr, &["  signed   by no identity in [skills.identities]"]);
}

#[test]
fn doctor_and_config_look_at_the_lock_file_and_at_who_may_sign() {
    let (ada, bob) = (Keys::new(), Keys::new());
    let home = home_of(false, &[("ada", &ada.public())]);
    let root = crate::support::folder(&[("a.txt", "x\n")]);
    let (_folder, component) = changed("echo", &[]);
    skill(&home, &["sign", text(&component), "--key", text(&ada.private())]).expect(0);
    skill(&home, &["add", text(&component), "--yes"]).expect(0);
    home.run(root.path(), &["skill", "lock", "echo"]).expect(0);
    let ask = |command: &str, code| home.run(root.path(), &[command]).expect(code);
    holds(
        &ask("doctor", 0).stdout,
        &[
            "ok    skills.lock     1 skill is as locked",
            "ok    identities      ada may sign; 1 of 1 skills signed",
        ],
    );
    holds(&ask("config", 0).stdout, &["repository.skills", "1 skill is as locked"]);
    // One skill more than is locked, signed with another key.
    let (_other, extra) = changed("echo", &[("echo", "s001")]);
    skill(&home, &["sign", text(&extra), "--key", text(&bob.private())]).expect(0);
    skill(&home, &["add", text(&extra), "--yes"]).expect(0);
    let said = ask("doctor", 0).stdout;
    holds(
        &said,
        &[
            "ok    skills.lock     1 skill is as locked",
            "warn  identities      `s001` is not signed by `ada`",
        ],
    );
    let said = ask("config", 0).stderr;
    holds(&said, &["[warning] `s001` is not signed by `ada`"]);
    // A file that cannot be understood stops the commands that need it.
    std::fs::write(root.path().join("skills.lock"), "version = 1\nskil = []\n").expect("the folder is writable");
    holds(
        &ask("doctor", 2).stdout,
        &["fail  skills.lock", "line 2: unknown field `skil`"],
    );
    holds(&ask("config", 2).stderr, &["[error] ", "line 2: unknown field `skil`"]);
    std::fs::remove_file(root.path().join("skills.lock")).expect("it is ours");
    std::fs::write(ada.public(), "no key").expect("it is ours");
    holds(
        &ask("doctor", 2).stdout,
        &["fail  identities      `[skills.identities] ada` is no usable key"],
    );
    holds(
        &ask("config", 2).stderr,
        &["[error] `[skills.identities] ada` is no usable key"],
    );
    std::fs::remove_file(ada.public()).expect("it is ours");
    holds(
        &ask("doctor", 2).stdout,
        &["fail  identities", "could not be read", "No such file"],
    );
}

#[test]
fn a_signature_that_arrives_later_is_fetched_by_sync() {
    let (ada, registry) = (Keys::new(), Registry::start());
    let author = home_of(false, &[("ada", &ada.public())]);
    let place = registry.place("team/echo:1.0");
    let (_folder, component) = changed("echo", &[]);
    push(&author, &component, &place);
    skill(&author, &["add", &place, "--yes"]).expect(0);
    let root = crate::support::folder(&[("a.txt", "x\n")]);
    author.run(root.path(), &["skill", "lock", "echo"]).expect(0);
    let mate = home_of(false, &[("ada", &ada.public())]);
    let sync = || mate.run(root.path(), &["skill", "sync", "--yes"]);
    sync().expect(0);
    let config = mate.path().join("config.toml");
    let text_of = std::fs::read_to_string(&config).expect("it is there");
    let required = text_of.replace("require_signature = false", "require_signature = true");
    std::fs::write(&config, required).expect("the home is ours");
    holds(
        &sync().expect(1).stderr,
        &[
            "`echo` is locked and cannot be used: `echo` is not signed",
            "hint: `tool skill sync` fetches its signature once it is signed",
        ],
    );
    skill(&author, &["sign", text(&component), "--key", text(&ada.private())]).expect(0);
    push_signed(&author, &component, &place);
    assert_eq!(
        sync().expect(0).stdout,
        "Fetched the signature of echo.\n1 skill is as locked.\n"
    );
    mate.run(root.path(), &["skill", "sync", "--frozen"]).expect(0);
}
