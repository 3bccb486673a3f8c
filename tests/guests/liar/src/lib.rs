//! A reader of source files that has been taken over by the file it reads: the text says what it does wrong.

#[cfg(target_family = "wasm")]
mod component {
    use std::sync::atomic::{AtomicBool, Ordering};

    use outline::component::bindings::{self, exports::tool::symbols::outline as wit};

    struct Liar;

    static CALLED: AtomicBool = AtomicBool::new(false);

    impl wit::Guest for Liar {
        fn read(_: String, content: Vec<u8>) -> Option<wit::Outlined> {
            let again = CALLED.swap(true, Ordering::Relaxed);
            let end = content.len() as u32;
            let whole = named(0, end, 1);
            match content.as_slice() {
                b"honest" => answer(vec![whole]),
                b"once" if !again => answer(vec![whole]),
                b"beyond" => answer(vec![named(0, end + 1, 1)]),
                b"backwards" => answer(vec![named(end, 0, 1)]),
                b"line" => answer(vec![named(0, end, u32::MAX)]),
                b"many" => answer(vec![whole; 20_000]),
                b"names" => answer(vec![named(1, 1, 1)]),
                b"deep" => Some(wit::Outlined {
                    imports: vec![wit::Imported {
                        declares_module: false,
                        level: u32::MAX,
                        parts: Vec::new(),
                        item: None,
                    }],
                    ..empty()
                }),
                b"spin" => loop {
                    std::hint::black_box(&content);
                },
                b"sleep" => {
                    std::thread::sleep(std::time::Duration::from_secs(3600));
                    answer(vec![whole])
                }
                b"memory" => {
                    let mut hoard = Vec::new();
                    loop {
                        hoard.push(std::hint::black_box(vec![1_u8; 1 << 20]));
                    }
                }
                b"trap" => panic!("it gave up"),
                // Answers honestly where it finds any file at all.
                b"files" => ["/", "/repo", "/stage", "."]
                    .iter()
                    .any(|folder| std::fs::read_dir(folder).is_ok())
                    .then(|| answer(vec![whole]))
                    .flatten(),
                // Long parts, sent again and again: little in an answer, and much where they are written out.
                text if text.starts_with(b"imports") => Some(wit::Outlined {
                    imports: vec![
                        wit::Imported {
                            declares_module: false,
                            level: 0,
                            parts: vec![wit::Span { start: 0, end }; 20],
                            item: None,
                        };
                        5_000
                    ],
                    ..empty()
                }),
                b"flood" => answer(vec![whole; 1_000_000]),
                _ => None,
            }
        }

        fn read_details(language: String, content: Vec<u8>, _: Option<String>) -> Option<wit::Detailed> {
            let end = content.len() as u32;
            let whole = detailed(named(0, end, 1));
            let (definitions, uses) = match content.as_slice() {
                b"used" => (Vec::new(), vec![used(0, end, 1)]),
                b"used beyond" => (Vec::new(), vec![used(0, end + 1, 1)]),
                b"used later" => (Vec::new(), vec![used(0, end, 2)]),
                b"used always" => (Vec::new(), vec![used(0, end, 1); 60_000]),
                b"headless" => {
                    let signature = wit::Span { start: end, end: 0 };
                    (vec![wit::DetailedDefinition { signature, ..whole }], Vec::new())
                }
                b"contained" => {
                    let containers = vec![whole.signature; 100];
                    (vec![wit::DetailedDefinition { containers, ..whole }], Vec::new())
                }
                _ => {
                    let outlined = Self::read(language, content)?;
                    (outlined.definitions.into_iter().map(detailed).collect(), Vec::new())
                }
            };
            Some(wit::Detailed { definitions, uses })
        }
    }

    fn detailed(definition: wit::Definition) -> wit::DetailedDefinition {
        wit::DetailedDefinition {
            definition,
            first_line: 1,
            comment_line: None,
            signature: definition.name,
            containers: Vec::new(),
        }
    }

    fn used(start: u32, end: u32, line: u32) -> wit::Used {
        wit::Used {
            name: wit::Span { start, end },
            kind: wit::UseKind::Call,
            line,
        }
    }

    fn named(start: u32, end: u32, line: u32) -> wit::Definition {
        wit::Definition {
            name: wit::Span { start, end },
            kind: wit::Kind::Type,
            line,
            end_line: line,
            depth: 0,
        }
    }

    fn empty() -> wit::Outlined {
        wit::Outlined {
            definitions: Vec::new(),
            imports: Vec::new(),
        }
    }

    fn answer(definitions: Vec<wit::Definition>) -> Option<wit::Outlined> {
        Some(wit::Outlined { definitions, ..empty() })
    }

    bindings::export!(Liar with_types_in bindings);
}
