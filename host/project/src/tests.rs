//! A small tree for each framework: what the project is, how it runs, and where it starts.

use super::*;

/// Files of a tree: a path, and its text if it has one.
type Tree<'t> = &'t [(&'t str, &'t str)];

fn facts_of(files: Tree<'_>) -> ProjectFacts {
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
    detect_project(&tree, &read)
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

#[test]
fn each_framework_is_found_with_its_run_command_and_its_start() {
    let cases: [(Tree<'_>, [&str; 3]); 33] = [
        (
            &[
                ("requirements.txt", "Django>=5\n"),
                (
                    "manage.py",
                    "import os\nos.environ.setdefault('DJANGO_SETTINGS_MODULE', 'shop.settings')\n",
                ),
                ("shop/urls.py", ""),
            ],
            ["web application Django", "python manage.py runserver", "manage.py:2"],
        ),
        (
            &[
                ("requirements.txt", "flask\n"),
                ("app.py", "from flask import Flask\napp = Flask(__name__)\n"),
            ],
            ["web application Flask", "flask run", "app.py:2"],
        ),
        (
            &[
                (
                    "backend/pyproject.toml",
                    "[project]\ndependencies = [\"fastapi[standard]\"]\n",
                ),
                ("backend/uv.lock", ""),
                ("backend/app/main.py", "app = FastAPI(\n"),
            ],
            [
                "web application FastAPI",
                "cd backend && uv run uvicorn app.main:app --reload",
                "backend/app/main.py:1",
            ],
        ),
        (
            &[
                ("requirements.txt", "celery\n"),
                ("jobs/celery.py", "app = Celery('jobs')\n"),
            ],
            ["service Celery", "celery -A jobs.celery worker", "jobs/celery.py:1"],
        ),
        (
            &[
                ("requirements.txt", "jupyterlab\n"),
                ("01.ipynb", "{}"),
                ("02.ipynb", "{}"),
                ("03.ipynb", "{}"),
            ],
            ["notebooks", "jupyter lab", "01.ipynb"],
        ),
        (
            &[
                ("package.json", PACKAGE_OF_NEXT),
                ("pnpm-lock.yaml", ""),
                ("app/layout.tsx", ""),
                ("app/page.tsx", ""),
            ],
            ["web application Next.js", "pnpm run dev", "app/layout.tsx"],
        ),
        (
            &[
                (
                    "package.json",
                    "{\"scripts\": {\"dev\": \"nuxt dev\"},\n\"devDependencies\": {\"nuxt\": \"3\"}}",
                ),
                ("nuxt.config.ts", ""),
            ],
            ["web application Nuxt", "npm run dev", "nuxt.config.ts"],
        ),
        (
            &[
                (
                    "package.json",
                    "{\"scripts\": {\"dev\": \"remix dev\"},\n\"dependencies\": {\"@remix-run/react\": \"2\"}}",
                ),
                ("app/root.tsx", ""),
            ],
            ["web application Remix", "npm run dev", "app/root.tsx"],
        ),
        (
            &[
                (
                    "package.json",
                    "{\"scripts\": {\"dev\": \"vite dev\"},\n\"devDependencies\": {\"@sveltejs/kit\": \"2\"}}",
                ),
                ("src/routes/+page.svelte", ""),
            ],
            ["web application SvelteKit", "npm run dev", "src/routes/+page.svelte"],
        ),
        (
            &[
                (
                    "package.json",
                    "{\"scripts\": {\"dev\": \"astro dev\"},\n\"dependencies\": {\"astro\": \"5\"}}",
                ),
                ("bun.lock", ""),
                ("src/pages/index.astro", ""),
            ],
            ["web application Astro", "bun run dev", "src/pages/index.astro"],
        ),
        (
            &[
                (
                    "package.json",
                    "{\"devDependencies\": {\"vite\": \"6\"},\n\"scripts\": {\"dev\": \"vite\"}}",
                ),
                ("index.html", "<script type=\"module\" src=\"/src/main.ts\">\n"),
            ],
            ["web application Vite", "npm run dev", "index.html:1"],
        ),
        (
            &[
                (
                    "package.json",
                    "{\"dependencies\": {\"express\": \"5\"},\n\"scripts\": {\"start\": \"node src/index.js\"}}",
                ),
                ("yarn.lock", ""),
                ("src/app.js", "const app = express()\n"),
            ],
            ["web application Express", "yarn start", "src/app.js:1"],
        ),
        (
            &[
                (
                    "package.json",
                    "{\"dependencies\": {\"@nestjs/core\": \"11\"},\n\"scripts\": {\"start:dev\": \"nest start\"}}",
                ),
                ("src/main.ts", "const app = await NestFactory.create(A)\n"),
            ],
            ["web application NestJS", "npm run start:dev", "src/main.ts:1"],
        ),
        (
            &[
                (
                    "package.json",
                    "{\"devDependencies\": {\"electron\": \"35\"},\n\"scripts\": {\"start\": \"electron .\"}}",
                ),
                ("main.js", "app.whenReady()\n"),
            ],
            ["desktop application Electron", "npm start", "main.js:1"],
        ),
        (
            &[
                ("Gemfile", "gem \"rails\"\n"),
                ("config.ru", "run Rails.application\n"),
                ("bin/rails", ""),
                ("config/routes.rb", "Rails.application.routes.draw do\n"),
            ],
            ["web application Rails", "bin/rails server", "config.ru:1"],
        ),
        (
            &[("Gemfile", "gem 'sinatra'\n"), ("app.rb", "require 'sinatra'\n")],
            ["web application Sinatra", "bundle exec ruby app.rb", "app.rb:1"],
        ),
        (
            &[
                ("composer.json", "{\n\"require\": {\"laravel/framework\": \"12\"}}"),
                ("artisan", "define('LARAVEL_START', 1);\n"),
                ("routes/web.php", "Route::get('/')\n"),
            ],
            ["web application Laravel", "php artisan serve", "artisan:1"],
        ),
        (
            &[
                (
                    "composer.json",
                    "{\n\"require\": {\"symfony/framework-bundle\": \"7\"}}",
                ),
                ("public/index.php", "use App\\Kernel;\n"),
            ],
            ["web application Symfony", "symfony server:start", "public/index.php:1"],
        ),
        (
            &[
                (
                    "pom.xml",
                    "<project>\n<artifactId>spring-boot-maven-plugin</artifactId>\n",
                ),
                ("mvnw", ""),
                (
                    "src/main/java/org/samples/ShopApplication.java",
                    "package a;\n@SpringBootApplication\n",
                ),
            ],
            [
                "web application Spring Boot",
                "./mvnw spring-boot:run",
                "src/main/java/org/samples/ShopApplication.java:2",
            ],
        ),
        (
            &[
                ("pom.xml", "<project>\n<artifactId>quarkus-bom</artifactId>\n"),
                ("src/main/java/a/ShopResource.java", "@Path(\"/\")\n"),
            ],
            [
                "web application Quarkus",
                "mvn quarkus:dev",
                "src/main/java/a/ShopResource.java:1",
            ],
        ),
        (
            &[
                ("settings.gradle.kts", "include(\":app\")\n"),
                ("gradlew", ""),
                ("app/build.gradle.kts", "plugins { id(\"com.android.application\") }\n"),
                ("app/src/main/AndroidManifest.xml", "<application\n"),
            ],
            [
                "mobile application Android",
                "./gradlew -p app installDebug",
                "app/src/main/AndroidManifest.xml:1",
            ],
        ),
        (
            &[
                ("Shop.sln", ""),
                ("src/Web/Web.csproj", "<Project Sdk=\"Microsoft.NET.Sdk.Web\">\n"),
                ("src/Web/Program.cs", ""),
            ],
            [
                "web application ASP.NET Core",
                "dotnet run --project src/Web",
                "src/Web/Program.cs",
            ],
        ),
        (
            &[
                ("go.mod", "module shop\nrequire github.com/gin-gonic/gin v1.9.0\n"),
                ("cmd/shop/main.go", "package main\nfunc main() {\n"),
            ],
            ["web application Gin", "go run ./cmd/shop", "cmd/shop/main.go:2"],
        ),
        (
            &[
                ("go.mod", "module shop\nrequire github.com/spf13/cobra v1.9.0\n"),
                ("main.go", "package main\nfunc main() {\n"),
            ],
            ["command line Cobra", "go run .", "main.go:2"],
        ),
        (
            &[
                ("Cargo.toml", "[package]\n[dependencies]\naxum = \"0.8\"\n"),
                ("src/main.rs", "async fn main() {\n"),
            ],
            ["web application axum", "cargo run", "src/main.rs:1"],
        ),
        (
            &[
                ("Cargo.toml", "[package]\n[dependencies]\nclap = \"4\"\n"),
                ("src/main.rs", "fn main() {\n"),
                ("src/lib.rs", ""),
            ],
            ["command line clap", "cargo run", "src/main.rs:1"],
        ),
        (
            &[
                ("mix.exs", "def project do\n{:phoenix, \"~> 1.7\"},\n"),
                ("lib/shop_web/endpoint.ex", "use Phoenix.Endpoint\n"),
            ],
            [
                "web application Phoenix",
                "mix phx.server",
                "lib/shop_web/endpoint.ex:1",
            ],
        ),
        (
            &[
                ("CMakeLists.txt", "find_package(Zephyr REQUIRED)\nproject(blink)\n"),
                ("src/main.c", "int main(void)\n"),
            ],
            ["firmware Zephyr", "west flash", "src/main.c:1"],
        ),
        (
            &[("main.tf", "resource \"a\" \"b\" {\n"), ("variables.tf", "")],
            ["infrastructure Terraform", "terraform apply", "main.tf:1"],
        ),
        (
            &[
                ("ansible.cfg", "[defaults]\n"),
                ("site.yml", "---\n- hosts: all\n"),
                ("roles/web/tasks/main.yml", "- name: x\n"),
            ],
            ["infrastructure Ansible", "ansible-playbook site.yml", "site.yml:2"],
        ),
        (
            &[
                ("meta/main.yml", "galaxy_info:\n"),
                ("tasks/main.yml", "- name: x\n"),
                ("tasks/docker-compose.yml", "- name: y\n"),
                ("molecule/default/molecule.yml", ""),
            ],
            ["infrastructure Ansible", "molecule converge", "tasks/main.yml"],
        ),
        (
            &[
                ("go.mod", "module shop\nrequire github.com/gin-gonic/gin v1.9.0\n"),
                ("hello.go", "package main\nfunc main() {\n"),
            ],
            ["web application Gin", "go run .", "hello.go:2"],
        ),
        (
            &[
                ("Shop.sln", ""),
                ("src/Host/Host.csproj", "<Project Sdk=\"Aspire.AppHost.Sdk/9.0.0\">\n"),
                ("src/Host/Program.cs", ""),
            ],
            [
                "web application Aspire",
                "dotnet run --project src/Host",
                "src/Host/Program.cs",
            ],
        ),
    ];
    for (files, expected) in cases {
        assert_eq!(summary(files), expected.map(str::to_owned), "{files:?}");
    }
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
