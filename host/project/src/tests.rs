//! A small tree for each framework below `fixtures/`: what the project is, how it runs, and where it starts.

use super::*;

/// Files of a tree: a path, and its text if it has one.
type Tree<'t> = &'t [(&'t str, &'t str)];

fn with_tree<R>(files: Tree<'_>, detect: impl FnOnce(&ProjectTree<'_>, &[ProjectFile]) -> R) -> R {
    let paths: Vec<&str> = files.iter().map(|(path, _)| *path).collect();
    let is_aside = |path: &str| path.starts_with("examples/") || path.starts_with("tests/");
    let tree = ProjectTree::from_paths("", &paths, is_aside);
    let wanted = plan_reads(&tree);
    let read: Vec<ProjectFile> = files
        .iter()
        .filter(|(path, _)| wanted.iter().any(|wanted| wanted == path))
        .map(|(path, text)| ProjectFile {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
        })
        .collect();
    detect(&tree, &read)
}

fn facts_of(files: Tree<'_>) -> ProjectFacts {
    with_tree(files, detect_project)
}

/// Names of the data files whose rules apply.
fn found_rules(files: Tree<'_>) -> Vec<&'static str> {
    with_tree(files, |tree, read| {
        let found = tree.apply_rules(read);
        let is_found = |rule: &rules::FrameworkRule| found.iter().any(|found| std::ptr::eq(found.rule, rule));
        let named = rules::file_names().zip(rules::RULES.iter());
        named.filter(|(_, rule)| is_found(rule)).map(|(name, _)| name).collect()
    })
}

fn show_place(place: &EvidencePlace) -> String {
    place
        .line
        .map_or_else(|| place.path.clone(), |line| format!("{}:{line}", place.path))
}

/// The kind with its frameworks, the first command that runs the project, and the first start.
fn summary(files: Tree<'_>) -> [String; 3] {
    let facts = facts_of(files);
    let kind = facts.kind.map_or_else(String::new, |found| {
        let names: Vec<&str> = found.evidence.iter().map(|used| used.name.as_str()).collect();
        format!("{} {}", found.kind.label(), names.join(" "))
            .trim_end()
            .to_owned()
    });
    let run = facts
        .commands
        .into_iter()
        .find(|command| command.purpose == Purpose::Run);
    let start = facts.starts.first().map(|start| show_place(&start.place));
    [
        kind,
        run.map(|run| run.command).unwrap_or_default(),
        start.unwrap_or_default(),
    ]
}

const PACKAGE_OF_NEXT: &str =
    "{\n\"private\": true,\n\"scripts\": {\"dev\": \"next dev\"},\n\"dependencies\": {\"next\": \"15\"}}";

/// The facts in lines, as fixtures expect them.
fn facts_in_lines(facts: &ProjectFacts) -> String {
    let used = |used: &UsedFramework| {
        format!("{} ({})", used.name, show_place(&used.place))
            .trim_start()
            .to_owned()
    };
    let mut lines = vec![facts.kind.as_ref().map_or_else(
        || "kind: not recognised".to_owned(),
        |found| {
            let evidence: Vec<String> = found.evidence.iter().map(used).collect();
            format!("kind: {} {}", found.kind.label(), evidence.join(", "))
        },
    )];
    lines.extend(
        facts
            .workspace
            .iter()
            .map(|workspace| format!("workspace: {}", used(workspace))),
    );
    lines.extend(
        facts
            .frameworks
            .iter()
            .map(|framework| format!("framework: {}", used(framework))),
    );
    let command = |own: &ProjectCommand| {
        let place = show_place(&own.place);
        format!("{}: {} ({place})", own.purpose.label(), own.command)
    };
    lines.extend(facts.commands.iter().map(command));
    let start = |start: &ProgramStart| format!("start: {} ({})", start.what, show_place(&start.place));
    lines.extend(facts.starts.iter().map(start));
    lines.into_iter().map(|line| line + "\n").collect()
}

/// A tree of a framework with the facts that it shows.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fixture {
    expected: String,
    files: toml::Table,
}

#[test]
fn each_framework_has_a_fixture_whose_facts_are_found() {
    let mut without: Vec<&str> = rules::file_names().collect();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures");
    for entry in std::fs::read_dir(folder).expect("the folder exists") {
        let path = entry.expect("it can be listed").path();
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name");
        let text = std::fs::read_to_string(&path).expect("it can be read");
        let fixture: Fixture = toml::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let files: Vec<(&str, &str)> = fixture
            .files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str().expect("a file has text")))
            .collect();
        if let Some(at) = without.iter().position(|rule| *rule == name) {
            without.remove(at);
            assert!(found_rules(&files).contains(&name), "{name}: the rule does not apply");
        }
        assert_eq!(facts_in_lines(&facts_of(&files)), fixture.expected, "{name}");
    }
    assert_eq!(without, Vec::<&str>::new(), "rules without a fixture");
}

#[test]
fn a_workspace_is_named_with_what_its_packages_are() {
    let files: Tree<'_> = &[
        ("package.json", "{\"private\": true,\n\"packageManager\": \"pnpm@9\"}"),
        ("pnpm-workspace.yaml", "packages:\n"),
        ("turbo.json", "{}"),
        ("apps/web/package.json", PACKAGE_OF_NEXT),
        ("apps/web/app/layout.tsx", ""),
        ("packages/ui/package.json", "{\"private\": true}"),
    ];
    let facts = facts_of(files);
    let names: Vec<&str> = facts.workspace.iter().map(|used| used.name.as_str()).collect();
    assert_eq!(names, ["Turborepo", "pnpm workspace"]);
    assert_eq!(
        summary(files),
        [
            "web application Next.js",
            "cd apps/web && pnpm run dev",
            "apps/web/app/layout.tsx"
        ]
    );
}

#[test]
fn a_library_that_depends_on_a_framework_is_no_application() {
    let files: Tree<'_> = &[
        (
            "pyproject.toml",
            "[build-system]\n[project]\ndependencies = [\"flask\"]\n",
        ),
        ("flask_shop/__init__.py", ""),
        ("examples/app.py", "app = Flask(__name__)\n"),
    ];
    assert_eq!(summary(files), ["library", "", ""]);
}

#[test]
fn without_evidence_there_is_no_claim() {
    assert_eq!(
        facts_of(&[("notes.md", "run make\n"), ("a/b.md", "")]),
        ProjectFacts::default()
    );
}
