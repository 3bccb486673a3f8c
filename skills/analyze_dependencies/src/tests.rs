use skill_sdk::serde_json::Value;
use skill_sdk::testing::FakeHost;

use super::*;

fn call(files: &[(&str, &str)], arguments: Value) -> Result<Outcome, Failure> {
    AnalyzeDependencies::call(&FakeHost::new(files), &arguments.to_string())
}

fn text(files: &[(&str, &str)]) -> String {
    call(files, json!({})).expect("manifests are read").text
}

#[test]
fn package_json_with_its_lock() {
    let manifest = r#"{
  "name": "web",
  "version": "1.2.0",
  "engines": {"node": ">=20"},
  "packageManager": "npm@10.8.2",
  "workspaces": ["packages/*"],
  "dependencies": {
    "react": "^18.2.0",
    "@scope/lib": "workspace:*"
  },
  "devDependencies": {
    "jest": "~29.7.0",
    "odd": 3
  },
  "peerDependencies": {"react": ">=17"},
  "peerDependenciesMeta": {"react": {"optional": true}},
  "optionalDependencies": {"fsevents": "*"}
}
"#;
    let lock = r#"{"name": "web", "lockfileVersion": 3, "packages": {
      "": {"version": "1.2.0"},
      "node_modules/react": {"version": "18.3.1"},
      "node_modules/jest": {"version": "29.7.0"},
      "packages/a/node_modules/react": {"version": "17.0.2"}
    }}"#;
    let member = "{\"name\": \"a\", \"dependencies\": {\"react\": \"^17.0.0\", \"jest\": \"~29.7.0\"}}";
    let files = [
        ("package.json", manifest),
        ("package-lock.json", lock),
        ("packages/a/package.json", member),
    ];
    insta::assert_snapshot!(text(&files), @r"
        2 manifests and 7 dependencies; 1 manifest with problems

        package.json (npm)
          project: web 1.2.0
          problem: package.json:13: the version of `odd` is not a string
          engines: node >=20
          package manager: npm@10.8.2
          workspaces: packages/*
          lock file: package-lock.json (version 3, 3 packages)
          react ^18.2.0 [runtime] package.json:8 locked 18.3.1
          @scope/lib workspace:* [runtime] package.json:9
          jest ~29.7.0 [dev] package.json:12 locked 29.7.0
          react >=17 [peer] package.json:15 locked 18.3.1 (optional)
          fsevents * [optional] package.json:17

        packages/a/package.json (npm)
          project: a
          lock file: package-lock.json (version 3, 3 packages)
          react ^17.0.0 [runtime] packages/a/package.json:1 locked 17.0.2
          jest ~29.7.0 [runtime] packages/a/package.json:1 locked 29.7.0

        declared with different constraints:
          react: ^18.2.0 (package.json:8), ^17.0.0 (packages/a/package.json:1)
        ");
}

#[test]
fn old_npm_locks_and_locks_that_are_not_read() {
    let manifest = "{\"dependencies\": {\"a\": \"^1.0.0\"}}";
    let lock = r#"{"lockfileVersion": 1, "dependencies": {"a": {"version": "1.4.0", "requires": {"b": "1"}}}}"#;
    let old = text(&[("package.json", manifest), ("package-lock.json", lock)]);
    assert!(
        old.contains("  lock file: package-lock.json (version 1, 1 packages)\n"),
        "{old}"
    );
    assert!(
        old.contains("  a ^1.0.0 [runtime] package.json:1 locked 1.4.0\n"),
        "{old}"
    );
    let yarn = text(&[("package.json", manifest), ("yarn.lock", "a@^1.0.0:\n")]);
    assert!(yarn.contains("  lock file: yarn.lock (not read)\n"), "{yarn}");
    let broken = text(&[("package.json", manifest), ("package-lock.json", "{")]);
    assert!(
        broken.contains("  lock file: package-lock.json (does not parse: EOF"),
        "{broken}"
    );
}

#[test]
fn pyproject_in_every_dialect() {
    let manifest = r#"[build-system]
requires = ["hatchling>=1.21"]
build-backend = "hatchling.build"

[project]
name = "demo"
version = "0.3.0"
requires-python = ">=3.10"
dynamic = ["readme"]
dependencies = [
    "requests >= 2.31, < 3",
    "tomli>=2; python_version < '3.11'",
    "plugin @ https://example.org/plugin.zip",
    "??",
]

[project.optional-dependencies]
cli = ["click[colors]~=8.1"]

[dependency-groups]
test = ["pytest>=8", {include-group = "lint"}]
lint = ["ruff==0.6.9"]

[tool.uv]
dev-dependencies = ["mypy"]
"#;
    insta::assert_snapshot!(text(&[("pyproject.toml", manifest)]), @r"
        1 manifest and 8 dependencies; 1 manifest with problems

        pyproject.toml (Python, PEP 621)
          project: demo 0.3.0
          problem: pyproject.toml:14: not a requirement: `??`
          requires Python: >=3.10
          computed at build time: readme
          build backend: hatchling.build
          group test includes: lint (pyproject.toml:21)
          hatchling >=1.21 [build] pyproject.toml:2
          requests >=2.31,<3 [runtime] pyproject.toml:11
          tomli >=2 [runtime] pyproject.toml:12 (only: python_version < '3.11')
          plugin @ https://example.org/plugin.zip [runtime] pyproject.toml:13
          click[colors] ~=8.1 [extra:cli] pyproject.toml:18
          pytest >=8 [group:test] pyproject.toml:21
          ruff ==0.6.9 [group:lint] pyproject.toml:22
          mypy * [dev] pyproject.toml:25
        ");
}

#[test]
fn poetry_with_groups_and_its_lock() {
    let manifest = r#"[tool.poetry]
name = "demo"
version = "1.0.0"

[tool.poetry.dependencies]
python = "^3.10"
Django = "^5.0"
httpx = {version = "^0.27", extras = ["http2"], optional = true}
local = {path = "../local"}
forked = {git = "https://example.org/f.git", branch = "main"}
numpy = [
    {version = "^1.26", python = "<3.12"},
    {version = "^2.0", python = ">=3.12"},
]

[tool.poetry.dev-dependencies]
black = "*"

[tool.poetry.group.docs.dependencies]
mkdocs = "1.6.1"
"#;
    let lock =
        "[[package]]\nname = \"django\"\nversion = \"5.0.9\"\n\n[[package]]\nname = \"httpx\"\nversion = \"0.27.2\"\n";
    insta::assert_snapshot!(text(&[("pyproject.toml", manifest), ("poetry.lock", lock)]), @r"
        1 manifest and 8 dependencies

        pyproject.toml (Python, Poetry)
          project: demo 1.0.0
          requires Python: ^3.10
          lock file: poetry.lock (2 packages)
          Django ^5.0 [runtime] pyproject.toml:7 locked 5.0.9
          httpx[http2] ^0.27 [runtime] pyproject.toml:8 locked 0.27.2 (optional)
          local @ path ../local [runtime] pyproject.toml:9
          forked @ git https://example.org/f.git [runtime] pyproject.toml:10 (branch main)
          numpy ^1.26 [runtime] pyproject.toml:12 (only: python <3.12)
          numpy ^2.0 [runtime] pyproject.toml:13 (only: python >=3.12)
          black * [dev] pyproject.toml:17
          mkdocs 1.6.1 [group:docs] pyproject.toml:20
        ");
}

#[test]
fn requirements_files() {
    let base =
        "# pinned\nDjango==5.2 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\nrequests[socks]>=2.31 # http\n";
    let dev = "-r ../requirements.txt\n-c constraints.txt\n--index-url https://user:secret@example.org/simple\n\
               pytest ; python_version >= \"3.10\"\n-e git+https://example.org/x.git#egg=thing\n./vendored/pkg\n\
               django_==\nnot a requirement\n";
    let files = [
        ("requirements.txt", base),
        ("requirements/dev.txt", dev),
        ("requirements/notes.md", ""),
    ];
    let text = text(&files);
    assert!(!text.contains("secret"), "{text}");
    insta::assert_snapshot!(text, @r#"
        2 manifests and 5 dependencies; 1 manifest with problems

        requirements.txt (Python, requirements file)
          Django ==5.2 [runtime] requirements.txt:2 (2 hashes)
          requests[socks] >=2.31 [runtime] requirements.txt:5

        requirements/dev.txt (Python, requirements file)
          problem: requirements/dev.txt:7: not a requirement: `django_==`
          problem: requirements/dev.txt:8: not a requirement: `not a requirement`
          includes: requirements.txt (requirements/dev.txt:1)
          constrained by: requirements/constraints.txt (requirements/dev.txt:2)
          option: --index-url (requirements/dev.txt:3)
          pytest * [dev] requirements/dev.txt:4 (only: python_version >= "3.10")
          thing @ git+https://example.org/x.git#egg=thing [dev] requirements/dev.txt:5 (editable)
          pkg @ ./vendored/pkg [dev] requirements/dev.txt:6
        "#);
}

#[test]
fn setup_cfg_and_setup_py() {
    let cfg = "[metadata]\nname = demo\nversion = attr: demo.__version__\n\n[options]\npython_requires = >=3.9\n\
               install_requires =\n    requests>=2  # http\n    # a comment\n    attrs; python_version<\"3.10\"\n\n\
               [options.extras_require]\ndev =\n    pytest\ndocs = sphinx\n\n[flake8]\nmax-line-length = 100\n";
    let py = "from setuptools import setup\nimport os\n\nREQUIRES = ['requests>=2.28', 'six']\n\nsetup(\n    name='demo',\n    \
              version=open('VERSION').read(),\n    install_requires=REQUIRES,\n    \
              extras_require={'x': ['a', *more]},\n    tests_require=find(),\n)\n";
    insta::assert_snapshot!(text(&[("setup.cfg", cfg), ("setup.py", py), ("sub/setup.cfg", "[flake8]\nx = 1\n")]), @r#"
        2 manifests and 7 dependencies

        setup.cfg (Python, setuptools)
          project: demo attr: demo.__version__
          requires Python: >=3.9
          requests >=2 [runtime] setup.cfg:8
          attrs * [runtime] setup.cfg:10 (only: python_version<"3.10")
          pytest * [extra:dev] setup.cfg:14
          sphinx * [extra:docs] setup.cfg:15

        setup.py (Python, setup.py)
          project: demo
          not executed: only what is written out as a literal is read
          [extra:x] is computed (setup.py:10)
          [test] is computed (setup.py:11)
          requests >=2.28 [runtime] setup.py:4
          six * [runtime] setup.py:4
          a * [extra:x] setup.py:10

        declared with different constraints:
          requests: >=2 (setup.cfg:8), >=2.28 (setup.py:4)
        "#);
}

#[test]
fn pipfile() {
    let pipfile = "[[source]]\nurl = \"https://example.org\"\n\n[packages]\nflask = \"*\"\n\
                   requests = {version = \">=2\", markers = \"os_name == 'posix'\"}\n\n[dev-packages]\npytest = \"==8.0\"\n\n\
                   [docs]\nsphinx = \"*\"\n\n[requires]\npython_version = \"3.11\"\n";
    insta::assert_snapshot!(text(&[("Pipfile", pipfile), ("Pipfile.lock", "{}")]), @r"
        1 manifest and 4 dependencies

        Pipfile (Python, Pipenv)
          requires Python: 3.11
          lock file: Pipfile.lock (not read)
          flask * [runtime] Pipfile:5
          requests >=2 [runtime] Pipfile:6 (only: os_name == 'posix')
          pytest ==8.0 [dev] Pipfile:9
          sphinx * [group:docs] Pipfile:12
        ");
}

#[test]
fn cargo_with_a_workspace() {
    let root = r#"[workspace]
members = ["a"]

[workspace.dependencies]
serde = { version = "1.0", features = ["derive"] }
"#;
    let member = r#"[package]
name = "a"
version.workspace = true
edition = "2024"

[dependencies]
serde.workspace = true
json = { package = "serde_json", version = "1", optional = true }
local = { path = "../local" }
forked = { git = "https://example.org/f", tag = "v1" }

[dev-dependencies]
insta = "1.49"

[build-dependencies]
cc = "1"

[target.'cfg(unix)'.dependencies]
libc = "0.2"
"#;
    let lock = "version = 4\n[[package]]\nname = \"serde\"\nversion = \"1.0.210\"\n[[package]]\nname = \"libc\"\nversion = \
                \"0.2.1\"\n[[package]]\nname = \"libc\"\nversion = \"0.1.0\"\n";
    insta::assert_snapshot!(text(&[("Cargo.toml", root), ("a/Cargo.toml", member), ("Cargo.lock", lock)]), @r"
        2 manifests and 8 dependencies

        Cargo.toml (Rust)
          workspace members: a
          lock file: Cargo.lock (3 packages)
          serde 1.0 [workspace] Cargo.toml:5 locked 1.0.210 (features derive)

        a/Cargo.toml (Rust)
          project: a (from the workspace)
          edition: 2024
          lock file: Cargo.lock (3 packages)
          serde workspace 1.0 [runtime] a/Cargo.toml:7 locked 1.0.210
          serde_json 1 [runtime] a/Cargo.toml:8 (optional; as json)
          local @ path ../local [runtime] a/Cargo.toml:9
          forked @ git https://example.org/f [runtime] a/Cargo.toml:10 (tag v1)
          insta 1.49 [dev] a/Cargo.toml:13
          cc 1 [build] a/Cargo.toml:16
          libc 0.2 [runtime, cfg(unix)] a/Cargo.toml:19
        ");
}

#[test]
fn go_mod() {
    let manifest = "module example.org/demo // here\n\ngo 1.22\ntoolchain go1.22.3\n\nrequire example.org/a v1.2.3\n\n\
                    require (\n\texample.org/b v0.1.0 // indirect\n\t// a comment\n\texample.org/c/v2 v2.0.0\n)\n\n\
                    replace example.org/a => ../a\nexclude (\n\texample.org/c v1.0.0\n)\nfrobnicate\n";
    insta::assert_snapshot!(text(&[("go.mod", manifest)]), @r"
        1 manifest and 3 dependencies; 1 manifest with problems

        go.mod (Go)
          project: example.org/demo
          problem: go.mod:18: not understood: `frobnicate`
          Go version: 1.22
          toolchain: go1.22.3
          replace: example.org/a => ../a (go.mod:14)
          exclude: example.org/c v1.0.0 (go.mod:16)
          example.org/a v1.2.3 [runtime] go.mod:6
          example.org/b v0.1.0 [indirect] go.mod:9
          example.org/c/v2 v2.0.0 [runtime] go.mod:11
        ");
}

#[test]
fn broken_manifests_are_reported_and_the_others_read() {
    let files = [
        ("package.json", "{\n  \"dependencies\": {\n    \"a\": \"1\",\n  }\n}\n"),
        (
            "pyproject.toml",
            "[project]\nname = \"demo\"\ndependencies = [\"a\"\n\n[tool.x]\ny = = 1\n",
        ),
        ("sub/package.json", "[]"),
        ("sub/Cargo.toml", "[dependencies]\nserde = 1\nok = \"1\"\n"),
        ("sub/setup.cfg", "name = x\n[options\n"),
        ("sub/setup.py", "setup(install_requires=['a'\n"),
        ("sub/go.mod", "require (\n\ta v1\n"),
        ("fine/requirements.txt", "ok==1\n"),
    ];
    insta::assert_snapshot!(text(&files), @r"
        8 manifests and 5 dependencies; 7 manifests with problems

        package.json (npm)
          problem: package.json:4: column 3: trailing comma

        pyproject.toml (Python, PEP 621)
          project: demo
          problem: pyproject.toml:5: column 1: missing comma between array elements, expected `,`; what follows is not read
          a * [runtime] pyproject.toml:3

        fine/requirements.txt (Python, requirements file)
          ok ==1 [runtime] fine/requirements.txt:1

        sub/Cargo.toml (Rust)
          problem: sub/Cargo.toml:2: `serde` is neither a version nor a table
          ok 1 [runtime] sub/Cargo.toml:3

        sub/go.mod (Go)
          problem: sub/go.mod:2: a block without its closing parenthesis
          a v1 [runtime] sub/go.mod:2

        sub/package.json (npm)
          problem: sub/package.json:1: not a JSON object

        sub/setup.cfg (Python, setuptools)
          problem: sub/setup.cfg:1: a line before the first section
          problem: sub/setup.cfg:2: a section without its closing bracket

        sub/setup.py (Python, setup.py)
          problem: sub/setup.py:1: does not parse
          not executed: only what is written out as a literal is read
          a * [runtime] sub/setup.py:1
        ");
}

#[test]
fn manifests_that_are_not_text_are_reported() {
    let host = FakeHost::new(&[("requirements.txt", &b"\xff\xfea\0b\0"[..]), ("go.mod", b"module x\n")]);
    let text = AnalyzeDependencies::call(&host, "{}").expect("the other is read").text;
    assert!(text.contains("  problem: requirements.txt: not UTF-8\n"), "{text}");
    assert!(text.contains("  project: x\n"), "{text}");
}

#[test]
fn one_manifest_or_one_directory() {
    let files = [
        ("requirements.txt", "a==1\n"),
        ("sub/requirements.txt", "b==1\n"),
        ("notes.txt", ""),
    ];
    let of = |path: &str| call(&files, json!({"path": path}));
    assert!(
        of("sub")
            .expect("it is read")
            .text
            .starts_with("1 manifest and 1 dependency in sub\n")
    );
    assert!(
        of("./requirements.txt")
            .expect("it is read")
            .text
            .contains("  a ==1 [runtime] requirements.txt:1\n")
    );
    assert_eq!(of("notes.txt").expect_err("it is none").code, "invalid-arguments");
    assert_eq!(of("absent").expect_err("it is absent").code, "not-found");
    assert_eq!(of("../x").expect_err("it leaves").code, "invalid-arguments");
    assert!(
        call(&[("a.txt", "")], json!({}))
            .expect("none is an answer")
            .text
            .starts_with("No manifest found: looked for")
    );
}

#[test]
fn long_answers_go_on_by_their_cursor() {
    let many: String = (0..1000)
        .map(|number| format!("package{number}==1.{number}\n"))
        .collect();
    let files = [("requirements.txt", many.as_str())];
    let mut cursor = None;
    let mut seen = 0;
    for _ in 0..3 {
        let arguments = cursor.map_or_else(|| json!({}), |cursor: String| json!({"cursor": cursor}));
        let outcome = call(&files, arguments).expect("it is read");
        assert_eq!(outcome.truncated, outcome.cursor.is_some());
        assert!(outcome.text.contains("requirements.txt (Python, requirements file)"));
        seen += outcome
            .text
            .lines()
            .filter(|line| line.starts_with("  package"))
            .count();
        cursor = outcome.cursor;
    }
    assert_eq!((seen, cursor), (1000, None));
    assert_eq!(
        call(&files, json!({"cursor": "x"})).expect_err("it is no cursor").code,
        "invalid-arguments"
    );
}

#[test]
fn the_description_is_one_that_a_model_can_use() {
    skill_sdk::testing::check_description::<AnalyzeDependencies>();
}

#[test]
fn gems_are_read_with_their_groups_and_sources() {
    let gemspec = "Gem::Specification.new do |s|\n  s.name = 'shop'\n  s.version = Shop::VERSION\n  \
                   s.add_dependency 'rack', '>= 3', '< 4'\n  # s.add_dependency 'old'\n  \
                   s.add_runtime_dependency(%q<json>.freeze, [\"~> 2.6\"])\n  s.add_dependency name\n  \
                   s.add_development_dependency \"rake\"\nend\n";
    let gemfile = "source 'https://example.org'\ngemspec\ngem 'yard' # docs\ngem \"tilt\", \"~> #{old}\"\n\
                   group :production do\n  gem 'pg', '>= 1'\nend\nif old\n  gem 'erubi', path: '../erubi'\nend\n\
                   gem 'rubocop', '~> 1.3', require: false, group: :lint\n";
    let application = "gem 'rails', '~> 8'\ngroup %i[development test] do\n  gem 'debug'\nend\n";
    let files = [
        ("shop.gemspec", gemspec),
        ("Gemfile", gemfile),
        ("app/Gemfile", application),
    ];
    insta::assert_snapshot!(text(&files), @r"
    3 manifests and 10 dependencies

    Gemfile (Bundler)
      yard * [dev] Gemfile:3
      tilt * [dev] Gemfile:4
      pg >= 1 [group:production] Gemfile:6
      erubi @ path ../erubi [dev] Gemfile:9
      rubocop ~> 1.3 [group:lint] Gemfile:11

    shop.gemspec (RubyGems)
      project: shop
      rack >= 3, < 4 [runtime] shop.gemspec:4
      json ~> 2.6 [runtime] shop.gemspec:6
      rake * [dev] shop.gemspec:8

    app/Gemfile (Bundler)
      rails ~> 8 [runtime] app/Gemfile:1
      debug * [dev] app/Gemfile:3
    ");
}

#[test]
fn builds_of_gradle_are_read_with_their_catalog() {
    let catalog = "[versions]\nokio = \"3.1\"\n[libraries]\n\
                   square-okio = { module = \"com.squareup.okio:okio\", version.ref = \"okio\" }\n\
                   junit = \"junit:junit:4.13\"\nbom = { group = \"a.b\", name = \"bom\" }\nodd = { version = \"1\" }\n";
    let kotlin = "plugins { alias(libs.plugins.kotlin) }\nkotlin {\n  sourceSets {\n    commonTest {\n      dependencies {\n\
                  \x20       implementation(libs.junit)\n      }\n    }\n  }\n}\ndependencies {\n  api(libs.square.okio)\n\
                  \x20 implementation(platform(libs.bom))\n  implementation(projects.cart) // the cart\n\
                  \x20 implementation(libs.unknown)\n  testImplementation(\"a:b:1.0\") { exclude(group = \"x\") }\n\
                  \x20 // api(\"c:d:1\")\n  exclude(\"e:f:1\")\n}\n";
    let groovy = "buildscript { dependencies { classpath 'g:plugin:2' } }\nrepositories { api 'no:no:1' }\ndependencies {\n\
                  \x20 implementation group: 'g', name: 'h', version: '1.2'\n  compileOnly 'i:j'\n  \
                  \x20 api project(':cart')\n  api \"${made}:up\"\n  kapt \"k:l:$version\"\n}\n";
    let files = [
        ("gradle/libs.versions.toml", catalog),
        ("shop/build.gradle.kts", kotlin),
        ("build.gradle", groovy),
        ("empty/build.gradle", "plugins {}\n"),
    ];
    insta::assert_snapshot!(text(&files), @r"
    3 manifests and 14 dependencies; 1 manifest with problems

    build.gradle (Gradle)
      g:plugin 2 [build] build.gradle:1
      h 1.2 [runtime] build.gradle:4
      i:j * [build] build.gradle:5
      :cart project [runtime] build.gradle:6
      k:l $version [build] build.gradle:8

    gradle/libs.versions.toml (Gradle, version catalog)
      problem: gradle/libs.versions.toml:7: `odd` names no module
      com.squareup.okio:okio 3.1 [catalog] gradle/libs.versions.toml:4 (libs.square.okio)
      junit:junit 4.13 [catalog] gradle/libs.versions.toml:5 (libs.junit)
      a.b:bom * [catalog] gradle/libs.versions.toml:6 (libs.bom)

    shop/build.gradle.kts (Gradle)
      libs.junit junit:junit 4.13 [test] shop/build.gradle.kts:6
      libs.square.okio com.squareup.okio:okio 3.1 [runtime] shop/build.gradle.kts:12
      libs.bom a.b:bom * [runtime] shop/build.gradle.kts:13
      projects.cart project [runtime] shop/build.gradle.kts:14
      libs.unknown * [runtime] shop/build.gradle.kts:15
      a:b 1.0 [test] shop/build.gradle.kts:16
    ");
}

#[test]
fn a_pom_is_read_without_what_it_manages() {
    let parent = "<project>\n  <artifactId>shop-parent</artifactId>\n  <version>1.0</version>\n  <dependencyManagement>\n    \
                  <dependencies>\n      <dependency><groupId>g</groupId><artifactId>managed</artifactId>\
                  <version>9</version></dependency>\n    </dependencies>\n  </dependencyManagement>\n  <build><plugins><plugin>\
                  <dependencies><dependency><groupId>p</groupId><artifactId>plugin</artifactId></dependency></dependencies>\
                  </plugin></plugins></build>\n</project>\n";
    let module = "<?xml version=\"1.0\"?>\n<!-- <dependency> -->\n<project xmlns=\"http://example.org\">\n  <parent>\n    \
                  <artifactId>shop-parent</artifactId>\n    <version>1.0</version>\n  </parent>\n  <artifactId>cart</artifactId>\n  \
                  <dependencies>\n    <dependency>\n      <groupId>org.example</groupId>\n      <artifactId>price-list</artifactId>\n      \
                  <version>${price.version}</version>\n      <exclusions><exclusion><groupId>x</groupId></exclusion></exclusions>\n    \
                  </dependency>\n    <dependency>\n      <groupId>junit</groupId>\n      <artifactId>junit</artifactId>\n      \
                  <scope>test</scope>\n    </dependency>\n    <dependency><groupId>g</groupId><artifactId>managed</artifactId>\
                  <optional>true</optional></dependency>\n  </dependencies>\n</project>\n";
    let files = [
        ("pom.xml", parent),
        ("cart/pom.xml", module),
        (
            "odd/pom.xml",
            "<project>\n  <dependencies>\n    <dependency></project>\n",
        ),
    ];
    insta::assert_snapshot!(text(&files), @r"
    3 manifests and 3 dependencies; 1 manifest with problems

    pom.xml (Maven)
      project: shop-parent 1.0
      no dependencies declared

    cart/pom.xml (Maven)
      project: cart 1.0
      parent: shop-parent
      org.example:price-list ${price.version} [runtime] cart/pom.xml:10-15
      junit:junit managed [test] cart/pom.xml:16-20
      g:managed managed [optional] cart/pom.xml:21

    odd/pom.xml (Maven)
      problem: odd/pom.xml:3: ill-formed document: expected `</dependency>`, but `</project>` was found
    ");
}

#[test]
fn composer_json_has_packages_and_a_platform() {
    let manifest = "{\n  \"name\": \"shop/cart\",\n  \"require\": {\n    \"php\": \">=8.1\",\n    \"ext-json\": \"*\",\n    \
                    \"psr/log\": \"^2 || ^3\"\n  },\n  \"require-dev\": {\n    \"phpunit/phpunit\": \"^10\"\n  },\n  \
                    \"suggest\": {\"ext-curl\": \"for HTTP\"}\n}\n";
    let files = [
        ("composer.json", manifest),
        ("composer.lock", "{}"),
        ("odd/composer.json", "[]"),
    ];
    insta::assert_snapshot!(text(&files), @r"
    2 manifests and 2 dependencies; 1 manifest with problems

    composer.json (Composer)
      project: shop/cart
      requires PHP: >=8.1
      lock file: composer.lock (not read)
      psr/log ^2 || ^3 [runtime] composer.json:6
      phpunit/phpunit ^10 [dev] composer.json:9

    odd/composer.json (Composer)
      problem: odd/composer.json:1: not a JSON object
      lock file: composer.lock (not read)
    ");
}

#[test]
fn mix_exs_has_the_tuples_of_its_function() {
    let manifest = "defmodule Shop.MixProject do\n  def project do\n    [\n      app: :shop,\n      version: \"1.2.0\",\n      \
                    elixir: \"~> 1.15\",\n      deps: deps(),\n      docs: {:no, \"1.0\"}\n    ]\n  end\n\n  defp deps do\n    [\n      \
                    {:plug, \"~> 1.14\"},\n      # {:old, \"~> 1.0\"},\n      {:jason, \"~> 1.0\", optional: true},\n      \
                    {:ex_doc, \"~> 0.38\", only: :docs},\n      {:mint, \"~> 1.4\", only: :test},\n      \
                    {:credo, \"~> 1.7\",\n       only: [:dev, :test], runtime: false},\n      {:crypto, crypto_version()},\n      \
                    {:price, path: \"../price\", env: {:a, 1}},\n      {:cart, in_umbrella: true}\n    ]\n  end\n\n  \
                    defp aliases do\n    [{:none, \"1\"}]\n  end\nend\n";
    let short = "  def deps, do: [{:plug, \"~> 1.0\"}]\n  def other, do: [{:none, \"1\"}]\n";
    let files = [
        ("mix.exs", manifest),
        ("mix.lock", ""),
        ("short/mix.exs", short),
        ("none/mix.exs", ""),
    ];
    insta::assert_snapshot!(text(&files), @r"
    3 manifests and 9 dependencies

    mix.exs (Mix)
      project: shop 1.2.0
      requires Elixir: ~> 1.15
      lock file: mix.lock (not read)
      plug ~> 1.14 [runtime] mix.exs:14
      jason ~> 1.0 [optional] mix.exs:16
      ex_doc ~> 0.38 [group:docs] mix.exs:17
      mint ~> 1.4 [test] mix.exs:18
      credo ~> 1.7 [dev] mix.exs:19-20
      crypto * [runtime] mix.exs:21
      price @ path ../price [runtime] mix.exs:22
      cart @ umbrella [runtime] mix.exs:23

    none/mix.exs (Mix)
      lock file: mix.lock (not read)
      no dependencies declared

    short/mix.exs (Mix)
      lock file: mix.lock (not read)
      plug ~> 1.0 [runtime] short/mix.exs:1

    declared with different constraints:
      plug: ~> 1.14 (mix.exs:14), ~> 1.0 (short/mix.exs:1)
    ");
}

#[test]
fn projects_of_dotnet_take_central_versions() {
    let central = "<Project>\n  <PropertyGroup>\n    <AspNetVersion>8.0.2</AspNetVersion>\n  </PropertyGroup>\n  <ItemGroup>\n    \
                   <PackageVersion Include=\"MediatR\" Version=\"12.0.1\" />\n    \
                   <PackageVersion Include=\"Microsoft.AspNetCore.Mvc\" Version=\"$(AspNetVersion)\" />\n  </ItemGroup>\n</Project>\n";
    let web = "\u{feff}<Project Sdk=\"Microsoft.NET.Sdk.Web\">\r\n  <PropertyGroup>\r\n    <TargetFramework>net8.0</TargetFramework>\r\n  \
               </PropertyGroup>\r\n  <ItemGroup>\r\n    <PackageReference Include=\"mediatr\" />\r\n    \
               <PackageReference Include=\"Serilog\"><Version>3.1</Version></PackageReference>\r\n    \
               <PackageReference Include=\"Analyzers\" Version=\"1.0\">\r\n      <PrivateAssets>all</PrivateAssets>\r\n    </PackageReference>\r\n    \
               <PackageReference Include=\"Unknown\" />\r\n    \
               <ProjectReference Include=\"..\\ApplicationCore\\ApplicationCore.csproj\" />\r\n  </ItemGroup>\r\n</Project>\r\n";
    let tests = "<Project Sdk=\"Microsoft.NET.Sdk\"><ItemGroup>\n<PackageReference Include=\"Microsoft.NET.Test.Sdk\" Version=\"17\" />\n\
                 <PackageReference Include=\"MediatR\" VersionOverride=\"11.0\" />\n</ItemGroup></Project>\n";
    let old = "<?xml version=\"1.0\"?>\n<packages>\n  <package id=\"jQuery\" version=\"3.7\" targetFramework=\"net48\" />\n</packages>\n";
    let nested = "<a>".repeat(100_000);
    let files = [
        ("Directory.Packages.props", central),
        (
            "Directory.Build.props",
            "<Project><PropertyGroup><Nullable>enable</Nullable></PropertyGroup></Project>",
        ),
        ("src/Web/Web.csproj", web),
        ("tests/Unit/Unit.fsproj", tests),
        ("old/packages.config", old),
        (
            "odd/Odd.vbproj",
            "<Project>\n<ItemGroup>\n<PackageReference Include=\"A\" Version=\"1\"/>\n</Project>",
        ),
        ("deep/Deep.csproj", nested.as_str()),
    ];
    insta::assert_snapshot!(text(&files), @r"
    6 manifests and 11 dependencies; 2 manifests with problems

    Directory.Packages.props (.NET)
      MediatR 12.0.1 [central] Directory.Packages.props:6
      Microsoft.AspNetCore.Mvc 8.0.2 [central] Directory.Packages.props:7

    deep/Deep.csproj (.NET)
      problem: deep/Deep.csproj:1: elements are nested too deeply

    odd/Odd.vbproj (.NET)
      problem: odd/Odd.vbproj:4: ill-formed document: expected `</ItemGroup>`, but `</Project>` was found
      A 1 [runtime] odd/Odd.vbproj:3

    old/packages.config (.NET)
      jQuery 3.7 [runtime] old/packages.config:3

    src/Web/Web.csproj (.NET)
      SDK: Microsoft.NET.Sdk.Web
      target framework: net8.0
      mediatr 12.0.1 [runtime] src/Web/Web.csproj:6 (version: Directory.Packages.props:6)
      Serilog 3.1 [runtime] src/Web/Web.csproj:7
      Analyzers 1.0 [dev] src/Web/Web.csproj:8-10
      Unknown central [runtime] src/Web/Web.csproj:11
      ApplicationCore project [runtime] src/Web/Web.csproj:12

    tests/Unit/Unit.fsproj (.NET)
      SDK: Microsoft.NET.Sdk
      Microsoft.NET.Test.Sdk 17 [test] tests/Unit/Unit.fsproj:2
      MediatR 11.0 [test] tests/Unit/Unit.fsproj:3

    declared with different constraints:
      mediatr: 12.0.1 (Directory.Packages.props:6), 12.0.1 (src/Web/Web.csproj:6), 11.0 (tests/Unit/Unit.fsproj:3)
    ");
}

#[test]
fn packages_of_c_and_cpp_are_read() {
    let cmake = "cmake_minimum_required(VERSION 3.20)\nproject(shop VERSION 1.2 LANGUAGES CXX)\n# find_package(Old)\n\
                 find_package(Qt6 6.2 REQUIRED COMPONENTS Core Widgets)\nFind_Package( ZLIB )\nfind_package(${made})\n\
                 include(FetchContent)\nFetchContent_Declare(\n  fmt\n  GIT_REPOSITORY https://user:secret@example.org/fmt.git # here\n  \
                 GIT_TAG 10.1.0\n)\nfind_package(Open\n";
    let txt = "[requires]\nzlib/1.3.1\nfmt/[>=10 <11]@shop/stable # why\nnothing\n\n[tool_requires]\ncmake/3.27\n[options]\na/b:c=True\n";
    let py = "class Shop(ConanFile):\n    name = \"shop\"\n    version = '2.0'\n    requires = \"zlib/1.3.1\", \"boost/1.83.0\"\n    \
              tool_requires = [\n        \"cmake/3.27\",  # build\n    ]\n\n    def requirements(self):\n        \
              self.requires(\"spdlog/1.12.0\", force=True)\n        self.test_requires('gtest/1.14')\n        self.requires(made)\n";
    let vcpkg = "{\n  \"name\": \"fmt-user\",\n  \"version-string\": \"1\",\n  \"dependencies\": [\n    \"fmt\",\n    \
                 {\"name\": \"curl\", \"version>=\": \"8.0\", \"platform\": \"!windows\"},\n    {\"name\": \"tool\", \"host\": true},\n    3\n  ],\n  \
                 \"features\": {\"tests\": {\"dependencies\": [\n    \"catch2\"]}},\n  \
                 \"overrides\": [{\"name\": \"fmt\", \"version\": \"10.0\"}]\n}\n";
    let files = [
        ("CMakeLists.txt", cmake),
        ("empty/CMakeLists.txt", "add_library(a a.c)\n"),
        ("conanfile.txt", txt),
        ("py/conanfile.py", py),
        ("vcpkg.json", vcpkg),
        ("odd/vcpkg.json", "{"),
    ];
    insta::assert_snapshot!(text(&files), @r"
    5 manifests and 15 dependencies; 2 manifests with problems

    CMakeLists.txt (CMake)
      project: shop 1.2
      Qt6 6.2 [runtime] CMakeLists.txt:4 (components Core, Widgets)
      ZLIB * [optional] CMakeLists.txt:5
      fmt @ https://…@example.org/fmt.git [build] CMakeLists.txt:8-12 (tag 10.1.0)

    conanfile.txt (Conan)
      zlib 1.3.1 [runtime] conanfile.txt:2
      fmt >=10 <11 [runtime] conanfile.txt:3
      cmake 3.27 [build] conanfile.txt:7

    vcpkg.json (vcpkg)
      project: fmt-user 1
      problem: vcpkg.json:1: a dependency without a name
      fmt 10.0 [runtime] vcpkg.json:5
      curl >=8.0 [runtime] vcpkg.json:6 (only: !windows)
      tool * [build] vcpkg.json:7
      catch2 * [feature:tests] vcpkg.json:11

    odd/vcpkg.json (vcpkg)
      problem: odd/vcpkg.json:1: column 1: EOF while parsing an object

    py/conanfile.py (Conan)
      project: shop 2.0
      zlib 1.3.1 [runtime] py/conanfile.py:4
      boost 1.83.0 [runtime] py/conanfile.py:4
      cmake 3.27 [build] py/conanfile.py:6
      spdlog 1.12.0 [runtime] py/conanfile.py:10
      gtest 1.14 [test] py/conanfile.py:11

    declared with different constraints:
      fmt: @ https://…@example.org/fmt.git (CMakeLists.txt:8-12), >=10 <11 (conanfile.txt:3), 10.0 (vcpkg.json:5)
    ");
}

#[test]
fn charts_terraform_and_packages_of_swift_dart_and_scala_are_read() {
    let chart = "apiVersion: v2\nname: shop\nversion: 0.1.0\nappVersion: \"1.16\"\ndescription: |\n  dependencies:\n    - name: none\n\
                 dependencies:\n- name: postgresql\n  version: \"~12.1\" # pinned\n  repository: https://user:secret@example.org/charts\n  \
                 condition: postgresql.enabled\n- version: 1\n- repository: \"oci://example.org\"\n  name: redis\n";
    let terraform = "terraform {\n  required_version = \">= 1.5\"\n  required_providers {\n    aws = {\n      source  = \"hashicorp/aws\"\n      \
                     version = \"~> 5.0\"\n    }\n    random = { source = \"hashicorp/random\", version = \"3.6\" } # ü\n    null = \"~> 2\"\n  }\n}\n\
                     module \"vpc\" {\n  source  = \"terraform-aws-modules/vpc/aws\"\n  version = \"5.1.0\" // pinned\n}\nmodule \"cart\" {\n  \
                     source = \"./modules/cart\"\n  text = <<-EOT\n    module \"x\" { source = \"no\" }}}\n  EOT\n}\n";
    let swift = "// .package(url: \"no\")\nlet package = Package(name: \"Shop\", dependencies: [\n  \
                 .package(url: \"https://example.org/apple/swift-nio.git\", from: \"2.0.0\"),\n  \
                 .package(url: \"https://example.org/a/vapor\", .upToNextMinor(from: \"4.0.0\")),\n  \
                 .package(\n    url: \"https://example.org/a/b\",\n    \"1.0.0\"..<\"2.0.0\"\n  ),\n  .package(path: \"../Cart\"),\n])\n";
    let dart = "name: shop\nversion: 1.0.0+1\nenvironment:\n  sdk: '>=3.0.0 <4.0.0'\ndependencies:\n  flutter:\n    sdk: flutter\n  \
                http: ^1.1.0\n  cart:\n    git:\n      url: https://example.org/cart.git\n      path: sub\ndev_dependencies:\n  lints: any\n";
    let scala = "name := \"shop\"\nThisBuild / scalaVersion := \"3.3.1\"\nval catsVersion = \"2.10.0\"\nlibraryDependencies ++= Seq(\n  \
                 \"org.typelevel\" %% \"cats-core\" % catsVersion,\n  \"org.scalatest\" %% \"scalatest\" % \"3.2\" % Test,\n  \
                 // \"no\" % \"no\" % \"1\"\n  \"a\" % \"b\" % \"1\", \"c\" % \"d\" % \"2\" % \"provided\"\n)\n";
    let deep = "a {\n".repeat(1000);
    let files = [
        ("chart/Chart.yaml", chart),
        ("main.tf", terraform),
        ("empty.tf", "variable \"a\" {}\n"),
        ("deep/main.tf", deep.as_str()),
        ("Package.swift", swift),
        ("pubspec.yaml", dart),
        ("build.sbt", scala),
        (
            "project/plugins.sbt",
            "addSbtPlugin(\"org.scalameta\" % \"sbt-scalafmt\" % \"2.5\")\n",
        ),
    ];
    insta::assert_snapshot!(text(&files), @r"
    7 manifests and 20 dependencies; 1 manifest with problems

    Package.swift (Swift package)
      swift-nio ^2.0.0 [runtime] Package.swift:3
      vapor ~4.0.0 [runtime] Package.swift:4
      b >=1.0.0, <2.0.0 [runtime] Package.swift:5-8
      Cart @ path ../Cart [runtime] Package.swift:9

    build.sbt (sbt)
      project: shop
      Scala version: 3.3.1
      org.typelevel:cats-core 2.10.0 [runtime] build.sbt:5
      org.scalatest:scalatest 3.2 [test] build.sbt:6
      a:b 1 [runtime] build.sbt:8
      c:d 2 [build] build.sbt:8

    main.tf (Terraform)
      requires Terraform: >= 1.5
      hashicorp/aws ~> 5.0 [provider] main.tf:4-7
      hashicorp/random 3.6 [provider] main.tf:8
      null ~> 2 [provider] main.tf:9
      terraform-aws-modules/vpc/aws 5.1.0 [module] main.tf:12-15
      ./modules/cart * [module] main.tf:16-21

    pubspec.yaml (Dart)
      project: shop 1.0.0+1
      requires sdk: >=3.0.0 <4.0.0
      flutter @ sdk flutter [runtime] pubspec.yaml:6-7
      http ^1.1.0 [runtime] pubspec.yaml:8
      cart @ url https://example.org/cart.git [runtime] pubspec.yaml:9-12
      lints any [dev] pubspec.yaml:14

    chart/Chart.yaml (Helm chart)
      project: shop 0.1.0
      version of the application: 1.16
      postgresql ~12.1 [optional] chart/Chart.yaml:9-12 (from https://…@example.org/charts)
      redis * [runtime] chart/Chart.yaml:14-15 (from oci://example.org)

    deep/main.tf (Terraform)
      problem: deep/main.tf:33: blocks are nested too deeply; what follows is not read

    project/plugins.sbt (sbt)
      org.scalameta:sbt-scalafmt 2.5 [build] project/plugins.sbt:1
    ");
}

#[test]
fn what_maven_and_gradle_both_say_is_listed_once() {
    let maven = "<project>\n<properties>\n<bootstrap.version>5.3.8</bootstrap.version>\n</properties>\n<dependencies>\n\
                 <dependency><groupId>org.example</groupId><artifactId>web</artifactId></dependency>\n\
                 <dependency><groupId>org.example</groupId><artifactId>bootstrap</artifactId><version>${bootstrap.version}</version></dependency>\n\
                 <dependency><groupId>org.example</groupId><artifactId>other</artifactId><version>1</version></dependency>\n\
                 </dependencies>\n</project>\n";
    let gradle = "ext.bootstrapVersion = \"5.3.8\"\ndependencies {\n  implementation 'org.example:web'\n  \
                  runtimeOnly \"org.example:bootstrap:${bootstrapVersion}\"\n  developmentOnly 'org.example:tools'\n}\n";
    let files = [("pom.xml", maven), ("build.gradle", gradle), ("sub/pom.xml", maven)];
    insta::assert_snapshot!(text(&files), @r"
    3 manifests and 7 dependencies

    build.gradle (Gradle)
      org.example:web * [runtime] build.gradle:3
      org.example:bootstrap 5.3.8 [runtime] build.gradle:4
      org.example:tools * [dev] build.gradle:5

    pom.xml (Maven)
      org.example:other 1 [runtime] pom.xml:8
      2 dependencies as in build.gradle

    sub/pom.xml (Maven)
      org.example:web managed [runtime] sub/pom.xml:6
      org.example:bootstrap 5.3.8 [runtime] sub/pom.xml:7
      org.example:other 1 [runtime] sub/pom.xml:8
    ");
}
