//! Package sources of the installers. The installers themselves are asked, outside of the sandbox and without
//! influence of the repository.
//!
//! They run in an empty folder, with the environment of the user who started the session; interpreters in the
//! repository are never asked. The result has the hosts that an installation may reach, the user's files that it
//! needs for that (certificates, a folder of wheels), and settings for its environment, because it sees neither the
//! user's home nor the repository's configuration of an installer.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::CallContext;
use crate::limits;
use tool_boundary::Failure;
use tool_sandbox::proxy::{ProxyRoute, RegistryHost, Upstream};
use tool_sandbox::{self, CommandSpec, RunEnd, RunLimits, environment, toolchain};

/// Access that an installation needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PackageSources {
    /// Hosts that it may reach.
    pub(super) way: ProxyRoute,
    /// Files and folders of the user that it may read.
    pub(super) shown: Vec<PathBuf>,
    /// Variables of its environment.
    pub(super) settings: BTreeMap<String, String>,
}

impl PackageSources {
    /// Note for the user's question.
    pub(super) fn note(&self) -> String {
        let mut names: Vec<String> = self.way.places.iter().map(RegistryHost::name).collect();
        names.sort();
        names.dedup();
        if names.is_empty() {
            "it reaches nothing on the network".to_owned()
        } else {
            format!("it reaches {} and nothing else on the network", names.join(", "))
        }
    }

    fn from_places(starter: &BTreeMap<String, String>, places: Vec<RegistryHost>) -> Self {
        let mut shown = Vec::new();
        for name in environment::CERTIFICATES {
            shown.extend(starter.get(name).map(PathBuf::from).filter(|path| path.is_absolute()));
        }
        Self {
            way: ProxyRoute::to_hosts(places, starter),
            shown,
            settings: BTreeMap::new(),
        }
    }

    fn show(&mut self, path: &str) {
        let path = Path::new(path.strip_prefix("file://").unwrap_or(path));
        if path.is_absolute() {
            self.shown.push(path.to_owned());
        }
    }
}

/// Runs a program in an empty folder and returns its output.
fn ask_program(
    context: &CallContext,
    program: &Path,
    arguments: &[&str],
    environment: BTreeMap<String, String>,
) -> Option<String> {
    let folder = tempfile::tempdir().ok()?;
    // Without a project here, npm looks for one in the folders above, where others may have written.
    std::fs::write(folder.path().join("package.json"), "{}").ok()?;
    let command = CommandSpec {
        program: program.to_owned(),
        arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
        directory: folder.path().to_owned(),
        environment,
    };
    let limits = RunLimits::within(Duration::from_secs(limits::PROBE_SECONDS_MAX));
    let run = tool_sandbox::run_command(&command, &limits, &context.cancel, &|_| {}).ok()?;
    (run.end == RunEnd::Exited(0)).then_some(run.output)
}

/// The environment in which an installer finds the user's settings.
fn starter_environment(context: &CallContext, variables: &[&str]) -> BTreeMap<String, String> {
    let mut environment = environment::for_run(&context.environment);
    environment.extend(environment::pick_variables(&context.environment, variables));
    // The settings of an active virtual environment belong to a project, not to the user.
    environment.remove("VIRTUAL_ENV");
    environment
}

/// The line of an output that is a JSON object; programs print warnings before and after it.
fn json_object_line<T: for<'de> Deserialize<'de>>(output: &str) -> Option<T> {
    let whole = serde_json::from_str(&output[output.find('{')?..=output.rfind('}')?]).ok();
    whole.or_else(|| output.lines().find_map(|line| serde_json::from_str(line).ok()))
}

fn unknown_sources(installer: &str, hint: &str) -> Failure {
    let message = format!("It cannot be found out where {installer} gets its packages.");
    Failure::unavailable(message).with_hint(hint)
}

const PIP_QUESTION: &str = include_str!("pip_sources.py");

#[derive(Debug, Deserialize)]
struct PipAnswer {
    index: String,
    files: String,
    settings: BTreeMap<String, String>,
}

impl PipAnswer {
    /// A setting as `pip install` reads it.
    fn get(&self, name: &str) -> Option<&str> {
        let places = [":env:", "install", "global"].map(|section| format!("{section}.{name}"));
        let mut values = places.iter().filter_map(|place| self.settings.get(place));
        values.find(|value| !value.trim().is_empty()).map(String::as_str)
    }

    fn sources(&self, starter: &BTreeMap<String, String>) -> PackageSources {
        let words = |name: &str| self.get(name).unwrap_or_default().split_whitespace();
        let mut places = Vec::new();
        let has_index = !self.get("no-index").is_some_and(is_true);
        if has_index {
            match self.get("index-url") {
                Some(url) => places.extend(RegistryHost::from_url(url, true)),
                None => places.extend(RegistryHost::from_host(&self.index)),
            }
            // Mirrors redirect to this host as well.
            places.extend(RegistryHost::from_host(&self.files));
            places.extend(words("extra-index-url").filter_map(|url| RegistryHost::from_url(url, true)));
        }
        places.extend(words("find-links").filter_map(|url| RegistryHost::from_url(url, true)));
        let mut sources = PackageSources::from_places(starter, places);
        if let Some(proxy) = self.get("proxy").and_then(Upstream::from_url) {
            sources.way.upstream_plain = Some(proxy.clone());
            sources.way.upstream_tls = Some(proxy);
        }
        for path in ["find-links", "cert", "client-cert"].into_iter().flat_map(words) {
            sources.show(path);
        }
        for name in PASSED_ON {
            if let Some(value) = self.get(name) {
                let words: Vec<&str> = value.split_whitespace().collect();
                let variable = format!("PIP_{}", name.replace('-', "_").to_uppercase());
                sources.settings.insert(variable, words.join(" "));
            }
        }
        if let Some(url) = self.get("index-url").filter(|_| has_index) {
            sources.settings.insert("UV_DEFAULT_INDEX".to_owned(), url.to_owned());
        }
        // Otherwise pip reads a file of the virtual environment, which belongs to the repository.
        sources
            .settings
            .insert("PIP_CONFIG_FILE".to_owned(), "/dev/null".to_owned());
        sources
    }
}

/// Settings of the user that name package sources.
const PASSED_ON: [&str; 11] = [
    "index-url",
    "extra-index-url",
    "find-links",
    "no-index",
    "cert",
    "client-cert",
    "trusted-host",
    "timeout",
    "default-timeout",
    "retries",
    "prefer-binary",
];

/// Variables that configure pip.
const PIP_VARIABLES: [&str; 8] = [
    "PIP_CONFIG_FILE",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "PIP_NO_INDEX",
    "PIP_TRUSTED_HOST",
    "PIP_CERT",
    "PIP_PROXY",
];

fn is_true(value: &str) -> bool {
    ["1", "true", "yes", "on", "y", "t"].contains(&value.trim().to_ascii_lowercase().as_str())
}

/// Finds pip's package sources.
pub(super) fn find_pip_sources(context: &CallContext) -> Result<PackageSources, Failure> {
    let root = context.repository.root();
    let mut pythons = toolchain::pythons_on_path(root, &context.environment);
    let answer = pythons.find_map(|python| {
        let environment = starter_environment(context, &PIP_VARIABLES);
        let output = ask_program(context, &python, &["-I", "-c", PIP_QUESTION], environment)?;
        json_object_line::<PipAnswer>(&output)
    });
    let hint = "a Python with pip, or with ensurepip, has to be on the PATH, outside of the repository";
    let answer = answer.ok_or_else(|| unknown_sources("pip", hint))?;
    Ok(answer.sources(&context.environment))
}

/// Variables that configure npm.
const NPM_VARIABLES: [&str; 4] = [
    "NPM_CONFIG_REGISTRY",
    "npm_config_registry",
    "NPM_CONFIG_USERCONFIG",
    "npm_config_userconfig",
];

/// Finds npm's package sources.
pub(super) fn find_npm_sources(context: &CallContext, program: &Path) -> Result<PackageSources, Failure> {
    let question = ["config", "list", "--json"];
    // Two names, because npm refuses to read a file twice.
    let nobodys = [
        &question[..],
        &["--userconfig=/nonexistent/user", "--globalconfig=/nonexistent/global"],
    ]
    .concat();
    let answer = |arguments: &[&str], variables: &[&str]| {
        let output = ask_program(context, program, arguments, starter_environment(context, variables));
        let settings = output.and_then(|output| json_object_line::<BTreeMap<String, Value>>(&output));
        settings.ok_or_else(|| unknown_sources("npm", "`npm config list --json` has to work in an empty folder"))
    };
    let (user, usual) = (answer(&question, &NPM_VARIABLES)?, answer(&nobodys, &[])?);
    Ok(npm_sources(&user, &usual, &context.environment))
}

fn npm_sources(
    user: &BTreeMap<String, Value>,
    usual: &BTreeMap<String, Value>,
    starter: &BTreeMap<String, String>,
) -> PackageSources {
    let text = |settings: &BTreeMap<String, Value>, name: &str| {
        let value = settings.get(name).and_then(Value::as_str).map(str::to_owned);
        value.filter(|value| !value.is_empty())
    };
    let usual_registry = text(usual, "registry");
    let is_registry = |name: &str| name == "registry" || name.ends_with(":registry");
    let urls = user.iter().filter(|(name, _)| is_registry(name));
    let urls = urls.filter_map(|(_, url)| url.as_str());
    let bare = |url: &str| url.trim_end_matches('/').to_owned();
    let is_set = ["npm_config_registry", "NPM_CONFIG_REGISTRY"]
        .iter()
        .any(|name| starter.contains_key(*name));
    let is_own = |url: &str| is_set || usual_registry.as_deref().map(bare) != Some(bare(url));
    let places: Vec<RegistryHost> = urls
        .filter_map(|url| RegistryHost::from_url(url, is_own(url)))
        .collect();
    let has_own = places.iter().any(|place| place.is_own);
    let mut sources = PackageSources::from_places(starter, places);
    for (name, plain) in [("https-proxy", false), ("proxy", true)] {
        // npm uses `proxy` for both if the other is not set.
        if let Some(proxy) = text(user, name).as_deref().and_then(Upstream::from_url) {
            if plain {
                sources.way.upstream_plain = Some(proxy.clone());
            }
            if !plain || sources.way.upstream_tls.is_none() {
                sources.way.upstream_tls = Some(proxy);
            }
        }
    }
    let mut set = |name: &str, value: String| sources.settings.insert(format!("npm_config_{name}"), value);
    set("registry", text(user, "registry").unwrap_or_default());
    // Hosts that the user excepts from proxies still go through the sandbox's proxy.
    set("noproxy", "nothing.invalid".to_owned());
    // The user's file may hold keys. Only a registry of the user's own may need them; the default registry needs
    // none.
    let file = text(user, "userconfig").filter(|_| has_own);
    set("userconfig", file.clone().unwrap_or_else(|| "/dev/null".to_owned()));
    let certificates = text(user, "cafile");
    if let Some(certificates) = &certificates {
        set("cafile", certificates.clone());
    }
    for path in [file, certificates].into_iter().flatten() {
        sources.show(&path);
    }
    sources
}

#[cfg(test)]
mod unit {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(owned).collect()
    }

    fn find_pip_sources(settings: &[(&str, &str)], starter: &[(&str, &str)]) -> PackageSources {
        let answer = PipAnswer {
            index: "index.example".to_owned(),
            files: "files.example".to_owned(),
            settings: map(settings),
        };
        answer.sources(&map(starter))
    }

    fn places(sources: &PackageSources) -> Vec<(String, bool)> {
        sources
            .way
            .places
            .iter()
            .map(|place| (place.name(), place.is_own))
            .collect()
    }

    fn named(places: &[(&str, bool)]) -> Vec<(String, bool)> {
        places
            .iter()
            .map(|(name, is_own)| ((*name).to_owned(), *is_own))
            .collect()
    }

    #[test]
    fn pip_reaches_what_it_knows_itself_and_what_its_user_configured() {
        let usual = find_pip_sources(&[], &[]);
        assert_eq!(
            places(&usual),
            named(&[("index.example", false), ("files.example", false)])
        );
        assert_eq!(usual.settings, map(&[("PIP_CONFIG_FILE", "/dev/null")]));
        assert_eq!(
            usual.note(),
            "it reaches files.example, index.example and nothing else on the network"
        );

        let own = find_pip_sources(
            &[
                ("global.index-url", "https://ignored.example/simple"),
                (":env:.index-url", "http://10.0.0.7:8080/simple"),
                (
                    "install.extra-index-url",
                    "https://one.example/simple\nhttps://two.example/simple",
                ),
                ("global.find-links", "/wheels https://links.example/x file:///more"),
                ("global.cert", "/home/ada/ca.pem"),
                ("install.script", "evil"),
            ],
            &[
                ("REQUESTS_CA_BUNDLE", "/home/ada/bundle.pem"),
                ("SSL_CERT_DIR", "relative"),
            ],
        );
        let expected = [
            ("10.0.0.7:8080", true),
            ("files.example", false),
            ("one.example", true),
            ("two.example", true),
            ("links.example", true),
        ];
        assert_eq!(places(&own), named(&expected));
        let shown = ["/home/ada/bundle.pem", "/wheels", "/more", "/home/ada/ca.pem"].map(PathBuf::from);
        assert_eq!(own.shown, shown);
        assert_eq!(own.settings["PIP_INDEX_URL"], "http://10.0.0.7:8080/simple");
        assert_eq!(
            own.settings["PIP_EXTRA_INDEX_URL"],
            "https://one.example/simple https://two.example/simple"
        );
        assert!(!own.settings.keys().any(|name| name.contains("SCRIPT")));

        let offline = find_pip_sources(&[("global.no-index", "true"), ("global.find-links", "/wheels")], &[]);
        assert!(places(&offline).is_empty());
        assert_eq!(offline.note(), "it reaches nothing on the network");
    }

    #[test]
    fn npm_reaches_its_registries_and_reads_the_users_file_only_for_one_of_their_own() {
        let values = |pairs: &[(&str, &str)]| {
            let value = |(name, value): &(&str, &str)| ((*name).to_owned(), Value::from(*value));
            pairs.iter().map(value).collect::<BTreeMap<_, _>>()
        };
        let usual = values(&[("registry", "https://registry.example/")]);
        let file = ("userconfig", "/home/ada/.npmrc");
        let npm = |settings: &[(&str, &str)], starter: &[(&str, &str)]| {
            npm_sources(&values(&[settings, &[file]].concat()), &usual, &map(starter))
        };
        let plain = npm(&[("registry", "https://registry.example")], &[]);
        assert_eq!(places(&plain), named(&[("registry.example", false)]));
        assert_eq!(plain.settings["npm_config_userconfig"], "/dev/null");
        assert!(plain.shown.is_empty());

        let own = npm(
            &[
                ("registry", "http://127.0.0.1:4873/"),
                ("@team:registry", "https://team.example/npm/"),
                ("cafile", "/ca.pem"),
            ],
            &[],
        );
        assert_eq!(places(&own), named(&[("team.example", true), ("127.0.0.1:4873", true)]));
        assert_eq!(own.shown, [PathBuf::from("/home/ada/.npmrc"), PathBuf::from("/ca.pem")]);
        assert_eq!(own.settings["npm_config_registry"], "http://127.0.0.1:4873/");

        let set = [("npm_config_registry", "https://registry.example/")];
        let said = npm(&[("registry", "https://registry.example/")], &set);
        assert_eq!(
            places(&said),
            named(&[("registry.example", true)]),
            "the user has said so"
        );
    }

    #[test]
    fn the_proxy_of_the_environment_comes_before_none_and_the_installers_own_before_it() {
        let proxies = [
            ("HTTPS_PROXY", "http://proxy.example:3128"),
            ("NO_PROXY", "mirror.example"),
        ];
        let sources = find_pip_sources(&[], &proxies);
        assert_eq!(
            sources.way.upstream_tls.map(|proxy| (proxy.host, proxy.port)),
            Some(("proxy.example".into(), 3128))
        );
        assert_eq!(
            (sources.way.upstream_plain, sources.way.direct.as_str()),
            (None, "mirror.example")
        );
        let own = find_pip_sources(&[("global.proxy", "http://own.example:1")], &proxies);
        assert_eq!(
            own.way.upstream_tls.map(|proxy| proxy.host).as_deref(),
            Some("own.example")
        );
    }

    #[test]
    fn answers_are_found_among_warnings() {
        type InstallerSettings = BTreeMap<String, String>;
        let expected = Some(map(&[("a", "b")]));
        assert_eq!(
            json_object_line::<InstallerSettings>("npm warn {x}\n{\"a\": \"b\"}\nnpm notice\n"),
            expected
        );
        assert_eq!(
            json_object_line::<InstallerSettings>("npm warn x\n{\n  \"a\": \"b\"\n}\n"),
            expected
        );
        assert_eq!(json_object_line::<InstallerSettings>("nothing"), None);
    }
}
