//! The memory of a backend that has worked on many repositories, one of them large.

use std::path::Path;

use serde_json::json;

use super::kibibytes;
use crate::conformance::http;
use crate::support::{Home, full, say, until};

/// Memory of the backend's own afterwards: without the files that it has mapped, such as its program.
const MEMORY_KIB_MAX: u64 = 120 * 1024;

/// Repositories and sessions of one run.
struct Size {
    repositories: usize,
    /// Files of the first repository; the others have some hundred.
    files: usize,
    sessions: usize,
}

fn write_files(root: &Path, count: usize) {
    for number in 0..count {
        let folder = root.join(format!("package{}", number / 100));
        if number % 100 == 0 {
            std::fs::create_dir_all(&folder).expect("folders can be made");
        }
        let text = format!(
            "\"\"\"Module {number}.\"\"\"\nimport os\n\n\nclass Thing{number}:\n    def run{number}(self, a):\n        \
             return a * {number}\n\n\ndef helper{number}(x):\n    return Thing{number}().run{number}(x)\n"
        );
        std::fs::write(folder.join(format!("module{number}.py")), text).expect("files can be written");
    }
}

#[test]
fn a_backend_gives_back_the_memory_of_its_sessions() {
    let size = if full() {
        Size {
            repositories: 10,
            files: 50_000,
            sessions: 100,
        }
    } else {
        Size {
            repositories: 3,
            files: 3_000,
            sessions: 12,
        }
    };
    let home = Home::offline();
    let repositories: Vec<tempfile::TempDir> = (0..size.repositories)
        .map(|number| {
            let folder = tempfile::tempdir().expect("a temporary folder");
            write_files(folder.path(), if number == 0 { size.files } else { 300 });
            folder
        })
        .collect();
    let address = home.serve();
    let pid = home.pid();
    for session in 0..size.sessions {
        let root = repositories[session % size.repositories].path();
        let operation = ["explain", "architect"][session / size.repositories % 2];
        let body = json!({"operation": operation, "target": ".", "repo_path": root});
        let started = http::post(&address, "/execute", &body).expect(200).json();
        let id = started["session_id"].as_str().expect("an id").to_owned();
        let is_running = || {
            http::get(&address, &format!("/results/{id}?output=0"))
                .expect(200)
                .json()["status"]
                == "running"
        };
        let begun = std::time::Instant::now();
        while is_running() {
            assert!(begun.elapsed().as_secs() < 300, "a session hangs");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
    let anonymous = || kibibytes(pid, "RssAnon:");
    let at_once = anonymous();
    until("the backend gives back its memory", || anonymous() < MEMORY_KIB_MAX);
    say(&format!(
        "{} sessions in {} repositories, one of {} files: {} MiB at the end, {} MiB after a while",
        size.sessions,
        size.repositories,
        size.files,
        at_once / 1024,
        anonymous() / 1024
    ));
}
