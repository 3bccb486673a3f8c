//! The host side of `wit/skill.wit`, generated.
#![allow(
    missing_docs,
    unreachable_pub,
    reason = "generated from `wit/skill.wit`, which documents it"
)]

// Without WASI: `wasmtime-wasi` has its bindings, except for the interfaces below.
wasmtime::component::bindgen!({
    path: "../../wit",
    inline: "
        package tool:host;
        world skill {
            include tool:skill/imports@1.0.0;
            export tool:skill/handler@1.0.0;
        }
    ",
    world: "tool:host/skill",
    // A host function may end its guest: at the deadline, on cancellation, or at a limit.
    imports: { default: trappable },
    trappable_error_type: {
        "tool:skill/types.failure" => crate::ImportError,
    },
});

/// Interfaces of WASI that need an effect.
pub(crate) mod outside {
    wasmtime::component::bindgen!({
        path: "../../wit",
        inline: "
            package tool:host;
            world outside {
                import wasi:http/outgoing-handler@0.2.12;
                import wasi:config/store@0.2.0-rc.1;
                import wasi:keyvalue/store@0.2.0-draft;
            }
        ",
        world: "tool:host/outside",
        imports: { default: trappable },
        with: {
            "wasi:io": wasmtime_wasi::p2::bindings::sync::io,
            "wasi:clocks": wasmtime_wasi::p2::bindings::clocks,
        },
    });
}
