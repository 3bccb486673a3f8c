//! The attacks, by name.
#![expect(
    clippy::exit,
    clippy::disallowed_methods,
    reason = "doing what is not allowed is what this guest is for"
)]

use std::fs::{self, File, OpenOptions};
use std::hint::black_box;
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use skill_sdk::{
    BlameQuery, Content, DiffQuery, Failure, Host, LogPage, LogQuery, Media, Narrowed, Narrowing, Outcome, Query,
    SearchPattern, SearchQuery, Selection, ShowQuery, SymbolQuery,
};

use crate::{Arguments, outside, raw};

/// Runs one.
pub(crate) fn run(host: &dyn Host, arguments: &Arguments) -> Result<Outcome, Failure> {
    let path = arguments.path.as_str();
    let count = arguments.count;
    let text = match arguments.attack.as_str() {
        "nothing" => "nothing".to_owned(),
        "present" => "got here".to_owned(),

        // Files
        "read" => told(fs::read_to_string(path)),
        "read-until" => {
            let seen = (0..count).any(|_| fs::read_to_string(path).is_ok_and(|text| text.contains(&arguments.to)));
            if seen {
                format!("got {}", arguments.to)
            } else {
                "refused: never".to_owned()
            }
        }
        "read-some" => told(File::open(path).and_then(|mut file| file.read(&mut [0; 16]))),
        "raw-list" => told(raw::list()),
        "raw-open" => told(raw::read(path)),
        "raw-write" => told(raw::create(path).map(|()| "created")),
        "stat" => told(fs::metadata(path).map(|metadata| format!("{:?} of {}", metadata.file_type(), metadata.len()))),
        "lstat" => told(fs::symlink_metadata(path).map(|metadata| format!("link: {}", metadata.is_symlink()))),
        "readlink" => told(fs::read_link(path).map(|target| target.display().to_string())),
        "list" => told(fs::read_dir(path).and_then(|entries| {
            let mut names = entries
                .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
                .collect::<std::io::Result<Vec<String>>>()?;
            names.sort_unstable();
            Ok(names.join(" "))
        })),
        "write" => told(fs::write(path, "owned").map(|()| "written")),
        "write-deep" => told(
            std::path::Path::new(path)
                .parent()
                .map_or(Ok(()), fs::create_dir_all)
                .and_then(|()| fs::write(path, "owned"))
                .map(|()| "written"),
        ),
        "git-shape" => {
            let write = |name: &str, content: &str| {
                let file = format!("{path}/{name}");
                fs::create_dir_all(file.rsplit_once('/').map_or("", |(parent, _)| parent))?;
                fs::write(file, content)
            };
            told(
                write("HEAD", "ref: refs/heads/main\n")
                    .and_then(|()| write("objects/x", ""))
                    .and_then(|()| write("refs/x", ""))
                    .and_then(|()| write("config", "[core]\n\tfsmonitor = false\n"))
                    .map(|()| "written"),
            )
        }
        "git-worktree" => told(
            fs::create_dir_all(path)
                .and_then(|()| fs::write(format!("{path}/HEAD"), "ref: refs/heads/main\n"))
                .and_then(|()| fs::write(format!("{path}/commondir"), "../elsewhere\n"))
                .map(|()| "written"),
        ),
        "append" => told(
            OpenOptions::new()
                .append(true)
                .open(path)
                .and_then(|mut file| file.write_all(b"owned"))
                .map(|()| "appended"),
        ),
        "truncate" => told(
            OpenOptions::new()
                .write(true)
                .truncate(true)
                .open(path)
                .map(|_| "truncated"),
        ),
        "create" => told(File::create_new(path).map(|_| "created")),
        "mkdir" => told(fs::create_dir_all(path).map(|()| "made")),
        "remove" => told(fs::remove_file(path).map(|()| "removed")),
        "rmdir" => told(fs::remove_dir(path).map(|()| "removed")),
        "rename" => told(fs::rename(path, &arguments.to).map(|()| "renamed")),
        "copy" => told(fs::copy(path, &arguments.to)),
        "hard-link" => told(fs::hard_link(path, &arguments.to).map(|()| "linked")),
        "symlink" => told(raw::symlink(path, &arguments.to).map(|()| "linked")),
        "delete" => {
            return Ok(Outcome {
                deletions: vec![path.to_owned()],
                ..Outcome::text("deleted")
            });
        }
        // Proposals about files, on what the guest claims to have read
        "replace" => {
            if count > 0 {
                let _ = fs::read(std::path::Path::new("/repo").join(path));
            }
            host.propose(path, arguments.to.as_bytes(), b"owned")?;
            "got replaced".to_owned()
        }
        "move" => {
            let base = fs::read(std::path::Path::new("/repo").join(path)).map_err(|error| Failure::io(path, &error))?;
            host.rename(path, &arguments.to, &base)?;
            "got moved".to_owned()
        }

        // Parts of an answer
        "say" => {
            let piece = "x".repeat(1024 * 1024);
            (0..count).for_each(|_| host.say(&piece));
            "got heard".to_owned()
        }
        "cite" => {
            for line in 0..count {
                host.cite(path, u32::try_from(line + 1).ok())?;
            }
            "got cited".to_owned()
        }
        "attach" => {
            host.attach(&Media {
                media_type: path.to_owned(),
                alternative: "a picture".to_owned(),
                content: arguments
                    .to
                    .repeat(usize::try_from(count).unwrap_or(usize::MAX))
                    .into_bytes(),
            })?;
            "got attached".to_owned()
        }
        "fail-after-write" => {
            fs::write(path, "owned").map_err(|error| Failure::io(path, &error))?;
            return Err(Failure::failed("failed on purpose"));
        }
        "trap-after-write" => {
            fs::write(path, "owned").map_err(|error| Failure::io(path, &error))?;
            panic!("trapped on purpose");
        }

        // Requests, settings and kept values
        "request" => reached(outside::request(&message(arguments, &[], b""))),
        "request-with" => {
            let headers = [arguments.to.clone()];
            reached(outside::request(&message(arguments, &headers, b"")))
        }
        "post" => reached(outside::request(&outside::Message {
            method: &arguments.to,
            ..message(arguments, &[], b"owned")
        })),
        "post-much" => {
            let body = vec![b'x'; usize::try_from(count).unwrap_or(usize::MAX)];
            reached(outside::request(&outside::Message {
                method: "POST",
                ..message(arguments, &[], &body)
            }))
        }
        "requests" => {
            let mut answer = Err("none".to_owned());
            for _ in 0..count {
                answer = outside::request(&message(arguments, &[], b""));
            }
            reached(answer)
        }
        "setting" => some(outside::setting(path).ok().flatten().into_iter().collect()),
        "settings" => some(outside::settings().unwrap_or_default()),
        "kept" => match outside::kept(&arguments.to, path) {
            Ok(value) => some(value.into_iter().collect()),
            Err(reason) => format!("refused: {reason}"),
        },
        "kept-keys" => some(outside::kept_keys(path).unwrap_or_default()),
        "keep" => {
            let value = vec![b'x'; usize::try_from(count).unwrap_or(usize::MAX)];
            reached(outside::keep("", path, &value).map(|()| "kept".to_owned()))
        }
        "keep-many" => {
            let value = vec![b'x'; 1024 * 1024];
            let kept = (0..count).map(|number| outside::keep("", &number.to_string(), &value));
            let kept: Result<Vec<()>, String> = kept.collect();
            reached(kept.map(|kept| format!("{} kept", kept.len())))
        }

        // Endless work and endless waiting
        "spin" => loop {
            black_box(path);
        },
        "spin-in-host-calls" => loop {
            let _ = black_box(fs::metadata("/repo"));
        },
        "sleep" => {
            std::thread::sleep(Duration::from_secs(1_000_000));
            "got up".to_owned()
        }
        "sleep-for-ever" => {
            raw::wait(u64::MAX);
            "got up".to_owned()
        }
        "wait-in-stream" => loop {
            raw::wait_for_input();
        },
        "nap" => {
            let before = Instant::now();
            std::thread::sleep(Duration::from_millis(count));
            format!("slept {}", before.elapsed() >= Duration::from_millis(count))
        }
        "panic" => panic!("a \u{1b}[31mred\u{1b}[0m reason"),
        "overflow" => format!("{}", deep(count)),
        "exit" => std::process::exit(3),
        "abort" => std::process::abort(),

        // Floods
        "memory" => {
            let mut held: Vec<Vec<u8>> = Vec::new();
            for _ in 0..count {
                held.push(black_box(vec![1; 1024 * 1024]));
            }
            format!("got {} MiB", held.len())
        }
        "output" => {
            return Ok(Outcome::text("x".repeat(usize::try_from(count).unwrap_or(usize::MAX))));
        }
        // Details of so many bytes, or these.
        "details" => {
            let details = match path {
                "" => format!(
                    "{{\"x\":\"{}\"}}",
                    "x".repeat(usize::try_from(count).unwrap_or(usize::MAX))
                ),
                path => path.to_owned(),
            };
            return Ok(Outcome {
                details: Some(details),
                ..Outcome::text("detailed")
            });
        }
        "many-deletions" => {
            // One text, sent many times: small in the guest, large in a host that copies it.
            let text = match path {
                "" => "x".repeat(1024),
                path => path.to_owned(),
            };
            return Ok(Outcome {
                deletions: vec![text; usize::try_from(count).unwrap_or(usize::MAX)],
                ..Outcome::default()
            });
        }
        "log" => {
            for number in 0..count {
                host.log("info", &format!("{number} {}", "x".repeat(100)));
            }
            "nothing".to_owned()
        }
        "stdout" => {
            for _ in 0..count {
                // The host bounds the output, so a failed write is expected.
                let _ = std::io::stdout().write_all(&[b'x'; 1000]);
                let _ = std::io::stderr().write_all(&[b'x'; 1000]);
            }
            "nothing".to_owned()
        }
        "random" => {
            let mut buffer = vec![0; 1024];
            for _ in 0..count {
                raw::random(&mut buffer);
            }
            format!("got {count} KiB")
        }
        "open-files" => {
            for _ in 0..count {
                match File::open(path) {
                    Ok(file) => std::mem::forget(file),
                    Err(error) => return Ok(Outcome::text(format!("refused: {:?}", error.kind()))),
                }
            }
            format!("got {count} files")
        }
        "handles" => {
            raw::hoard(count);
            format!("got {count} handles")
        }
        "selections" => match raw::hoard_selections(count) {
            Ok(()) => format!("got {count} selections"),
            Err(code) => format!("refused: {code}"),
        },
        "walk" => {
            let mut seen = 0;
            for _ in 0..count {
                seen += fs::read_dir(path).into_iter().flatten().count();
            }
            format!("got {seen} entries")
        }
        "reread" => {
            let mut bytes = 0;
            for _ in 0..count {
                bytes += fs::read(path).map(|content| content.len()).unwrap_or(0);
            }
            format!("got {bytes} bytes")
        }
        "stage-bytes" => {
            let result = File::create(path).and_then(|mut file| {
                for _ in 0..count {
                    file.write_all(&[1; 64 * 1024])?;
                }
                Ok(())
            });
            told(result.map(|()| "written"))
        }
        "stage-again" => {
            for _ in 0..count {
                if let Err(error) = fs::write(path, vec![1; 64 * 1024]).and_then(|()| fs::remove_file(path)) {
                    return Ok(Outcome::text(format!("refused: {:?}", error.kind())));
                }
            }
            "got away".to_owned()
        }
        "stage-hole" => told(
            File::create(path)
                .and_then(|mut file| {
                    file.seek(SeekFrom::Start(count))?;
                    file.write_all(b"x")
                })
                .map(|()| "written"),
        ),
        "stage-size" => told(
            File::create(path)
                .and_then(|file| file.set_len(count))
                .map(|()| "written"),
        ),
        "stage-files" => {
            for number in 0..count {
                if let Err(error) = fs::write(format!("{path}{number}"), "") {
                    return Ok(Outcome::text(format!("refused: {:?}", error.kind())));
                }
            }
            format!("got {count} files")
        }

        "stage-directories" => {
            for number in 0..count {
                if let Err(error) = fs::create_dir(format!("{path}{number}")) {
                    return Ok(Outcome::text(format!("refused: {:?}", error.kind())));
                }
            }
            format!("got {count} directories")
        }

        // Resources that a guest does not have.
        "environment" => some(
            std::env::vars()
                .map(|(name, value)| format!("{name}={value}"))
                .collect(),
        ),
        "arguments" => some(std::env::args().collect()),
        "stdin" => {
            let mut text = String::new();
            // An error is as good as nothing.
            let _ = std::io::stdin().read_to_string(&mut text);
            some(text.lines().map(str::to_owned).collect())
        }
        "tcp-socket" => told(raw::tcp_socket().map(|()| "a socket")),
        "udp-socket" => told(raw::udp_socket().map(|()| "a socket")),
        #[expect(clippy::disallowed_methods, reason = "it is an attack")]
        "connect" => told(TcpStream::connect("127.0.0.1:80").map(|_| "connected")),
        "bind" => told(TcpListener::bind("127.0.0.1:0").map(|_| "bound")),
        "udp" => told(UdpSocket::bind("127.0.0.1:0").map(|_| "bound")),
        "resolve" => told(("localhost", 80).to_socket_addrs().map(|_| "resolved")),
        "clock" => {
            let step = (0..1000)
                .map(|_| Instant::now().elapsed())
                .filter(|step| !step.is_zero())
                .min();
            match step.filter(|step| *step < Duration::from_millis(1)) {
                Some(step) => format!("got steps of {} ns", step.as_nanos()),
                None => "refused: coarse".to_owned(),
            }
        }
        "thread" => told(std::thread::Builder::new().spawn(|| ()).map(|_| "started")),
        "process" => told(std::process::Command::new("/bin/sh").spawn().map(|_| "started")),

        // The contract's imports
        "git" => match host.git_changes(&DiffQuery::default()) {
            Ok(diff) => format!("got {} changes", diff.changes.len()),
            Err(failure) => return Err(failure),
        },
        "log-commits" => told_commits(&host.git_log(&LogQuery {
            revision: named(&arguments.to),
            paths: named(path).into_iter().collect(),
            count: 100,
            after: None,
        })?),
        "log-for-ever" => loop {
            let page = host.git_log(&LogQuery {
                count: u32::MAX,
                ..LogQuery::default()
            })?;
            black_box(page);
        },
        "show-commit" => {
            let diff = host.git_show(&ShowQuery {
                revision: named(&arguments.to),
                paths: named(path).into_iter().collect(),
                context_lines: u32::MAX,
            })?;
            let patches: Vec<String> = diff
                .changes
                .into_iter()
                .map(|change| format!("{} {:?}\n{}", change.path, change.old_path, change.patch))
                .collect();
            format!("{}\n{}", diff.commit.message, patches.join("\n"))
        }
        "blame-lines" => {
            let page = host.git_blame(&BlameQuery {
                path: path.to_owned(),
                revision: named(&arguments.to),
                first_line: 0,
                line_count: u32::MAX,
            })?;
            format!("{}\n{:?}", page.content, page.hunks)
        }
        "outline" => format!("{:?}", host.outline(path)?),
        "uses" => format!("{:?}", host.uses(path, 0, u32::MAX)?),
        "definitions" => format!("{:?}", host.definitions(&symbol(arguments))?),
        "references" => format!("{:?}", host.references(&symbol(arguments))?),
        "references-for-ever" => loop {
            black_box(host.references(&symbol(arguments))?);
        },
        "candidates" => format!("{:?}", host.candidates(&search(arguments))?),
        "search-all" => search_all(host, path, &arguments.to)?,
        "search-all-for-ever" => loop {
            black_box(search_all(host, path, &arguments.to)?);
        },
        "candidates-for-ever" => loop {
            black_box(host.candidates(&search(arguments))?);
        },
        "list-all" => {
            let query = Query {
                under: path.to_owned(),
                recursive: true,
                ..Query::default()
            };
            let mut paths: Vec<String> = host.list(&query)?.into_iter().map(|entry| entry.path).collect();
            paths.sort_unstable();
            paths.join(" ")
        }
        "read-all" => read_all(host, path)?,
        "read-all-until" => {
            let mut seen = false;
            for _ in 0..count {
                seen |= read_all(host, path)?.contains(&arguments.to);
            }
            if seen {
                format!("got {}", arguments.to)
            } else {
                "refused: never".to_owned()
            }
        }
        "list-own" => {
            let query = Query {
                under: path.to_owned(),
                ..Query::default()
            };
            let page = host.list_page(&query)?;
            let names: Vec<String> = page.entries.into_iter().map(|entry| entry.path).collect();
            format!("{} and {} left out", names.join(" "), page.left_out)
        }
        "shown" => {
            let content = fs::read(format!("/repo/{path}")).map_err(|error| Failure::io(path, &error))?;
            host.shown(path, &content);
            format!("shown\n{}", String::from_utf8_lossy(&content))
        }
        "shown-to-nobody" => {
            let content = fs::read(format!("/repo/{path}")).map_err(|error| Failure::io(path, &error))?;
            host.shown(path, &content);
            "shown".to_owned()
        }
        "pretend-shown" => {
            host.shown(path, b"something else");
            "shown".to_owned()
        }
        "cursor" => {
            // The cursor that it asks to get back, longer than the host should return.
            let cursor = match count {
                0 => format!("\u{1b}[31m{path}\u{202e}"),
                count => "x".repeat(usize::try_from(count).unwrap_or(usize::MAX)),
            };
            return Ok(Outcome {
                truncated: true,
                cursor: Some(cursor),
                ..Outcome::text("a page")
            });
        }
        "colours" => "\u{1b}[31mred\u{1b}[0m\u{202e}\u{8}\ttab\r\n".to_owned(),
        "odd-code" => {
            return Err(Failure::new(
                "\u{1b}[0mmy-own-code",
                "an \u{1b}[31modd\u{1b}[0m failure",
            ));
        }
        other => return Err(Failure::invalid(format!("no attack `{other}`"))),
    };
    Ok(Outcome::text(text))
}

/// An argument that may be left out.
fn named(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn told_commits(page: &LogPage) -> String {
    let messages: Vec<&str> = page.commits.iter().map(|commit| commit.message.trim_end()).collect();
    messages.join(", ")
}

fn told<T: std::fmt::Display>(result: std::io::Result<T>) -> String {
    match result {
        Ok(value) => format!("got {value}"),
        Err(error) => format!("refused: {:?}", error.kind()),
    }
}

/// Describes the items of a list that should be empty.
fn message<'a>(arguments: &'a Arguments, headers: &'a [String], body: &'a [u8]) -> outside::Message<'a> {
    outside::Message {
        method: "GET",
        url: &arguments.path,
        headers,
        body,
    }
}

fn reached(answer: Result<String, String>) -> String {
    match answer {
        Ok(text) => format!("got {text}"),
        Err(reason) => format!("refused: {reason}"),
    }
}

fn some(all: Vec<String>) -> String {
    if all.is_empty() {
        "refused: none".to_owned()
    } else {
        format!("got {}", all.join(" "))
    }
}

#[expect(unconditional_recursion, reason = "that is the attack")]
fn deep(depth: u64) -> u64 {
    black_box([depth; 64]);
    deep(depth + 1) + depth
}

/// All files that match a glob, in one text.
fn read_all(host: &dyn Host, glob: &str) -> Result<String, Failure> {
    let selection = Selection {
        globs: vec![glob.to_owned()],
        file_bytes_max: u64::MAX,
        ..Selection::default()
    };
    let mut all = String::new();
    host.read_files(&selection, &mut |path, content| {
        all.push_str(path);
        if let Content::Whole(content) = content {
            all.push_str(&String::from_utf8_lossy(content));
        }
        ControlFlow::Continue(())
    })?;
    Ok(all)
}

/// All files that match a glob and that a search for a word reads, in one text, with the numbers of those left out.
fn search_all(host: &dyn Host, glob: &str, word: &str) -> Result<String, Failure> {
    let selection = Selection {
        globs: vec![glob.to_owned()],
        file_bytes_max: u64::MAX,
        ..Selection::default()
    };
    let pattern = SearchPattern {
        kind: "word".to_owned(),
        text: word.to_owned(),
        ignore_case: false,
    };
    let narrowing = Narrowing {
        patterns: vec![pattern],
        apart: vec![glob.to_owned()],
    };
    let mut all = String::new();
    host.read_matching(&selection, &narrowing, &mut |part| {
        match part {
            Narrowed::File(path, content) => {
                all.push_str(path);
                if let Content::Whole(content) = content {
                    all.push_str(&String::from_utf8_lossy(content));
                }
            }
            Narrowed::LeftOut(counts) => all.push_str(&format!("{counts:?}")),
        }
        ControlFlow::Continue(())
    })?;
    Ok(all)
}

/// The query for the symbol `to` beneath `path`.
fn symbol(arguments: &Arguments) -> SymbolQuery {
    SymbolQuery {
        name: arguments.to.clone(),
        under: arguments.path.clone(),
        after: None,
    }
}

/// The search for the word `to` beneath `path`.
fn search(arguments: &Arguments) -> SearchQuery {
    SearchQuery {
        kind: "word".to_owned(),
        pattern: arguments.to.clone(),
        under: arguments.path.clone(),
        ..SearchQuery::default()
    }
}
