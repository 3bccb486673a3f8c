//! The attempts to get out, each as a test of its own, in namespaces; all of them together in the fallback.

use std::path::Path;

use serde_json::Value;
use tool_proof::probes::ATTEMPTS;

use super::without_namespaces;
use crate::support::{Home, folder};

/// Makes attempts and gives what came of each.
fn attempt(arguments: &[&str]) -> Vec<Value> {
    let arguments = [&["__sandbox-probes", "--json"], arguments].concat();
    let finished = Home::empty().run(Path::new("/"), &arguments);
    let results: Value = serde_json::from_str(&finished.stdout).unwrap_or_else(|_| panic!("{finished:?}"));
    results.as_array().expect("it is a list").clone()
}

#[track_caller]
fn is_held(name: &str) {
    let results = attempt(&[name]);
    assert_eq!(results.len(), 1, "{results:?}");
    assert_eq!(
        (&results[0]["name"], &results[0]["verdict"]),
        (&name.into(), &"pass".into()),
        "{}",
        results[0]
    );
}

macro_rules! held {
    ($($name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                is_held(stringify!($name));
            }
        )*

        const TESTED: &[&str] = &[$(stringify!($name)),*];
    };
}

held! {
    write_system,
    write_etc,
    write_root,
    write_interpreter,
    write_outside,
    write_home,
    write_package_cache,
    change_package_cache,
    read_cache_credentials,
    read_manager_settings,
    read_other_environment,
    read_other_builds,
    write_other_builds,
    change_repository,
    delete_repository,
    read_hidden,
    read_hidden_link,
    read_git,
    uncover_hidden,
    read_outside,
    read_through_link,
    read_through_proc,
    read_parent,
    read_shadow,
    open_by_handle,
    make_device,
    change_device,
    change_proc,
    change_program,
    change_mode_outside,
    change_mode_by_link,
    change_mode_by_handle,
    change_mode_by_proc,
    change_times_outside,
    change_owner_outside,
    change_attributes_outside,
    hold_lease,
    leave_root,
    keep_rights,
    inherit_handles,
    inherit_environment,
    new_user_namespace,
    clone_user_namespace,
    clone3_user_namespace,
    join_namespace,
    mount,
    mount_anew,
    unmount,
    write_kernel_settings,
    write_sysrq,
    read_kernel_memory,
    read_kernel_tables,
    read_kernel_settings,
    trace,
    trace_me,
    read_memory,
    write_first_process,
    take_handle,
    signal_outside,
    see_outside,
    read_outside_environment,
    stop_keeper,
    limit_outside,
    slow_outside,
    place_outside,
    starve_outside,
    shared_memory,
    message_queue,
    use_keys,
    add_key,
    use_io_uring,
    use_unlisted_calls,
    load_bpf,
    watch_performance,
    handle_faults,
    change_personality,
    load_module,
    type_into_terminal,
    open_terminal,
    reach_host,
    reach_host_udp,
    reach_host_ipv6,
    reach_out,
    reach_out_udp,
    reach_abstract,
    reach_socket,
    take_abstract_name,
    reach_socket_by_pair,
    reach_backend,
    reach_backend_by_proc,
    reach_backend_by_streams,
    reach_backend_inherited,
    reach_socket_inside,
    use_packets,
    use_raw,
    use_vsock,
    use_netlink,
    fill_tree,
    fill_temporary,
    fill_package_cache,
    fill_memory_disk,
    fill_names,
    fork_bomb,
    use_memory,
    hold_memory_unseen,
    hold_memory_in_tables,
    hold_memory_in_memfd,
    hold_memory_shared,
    hold_memory_segments,
    use_addresses,
    dump_core,
    outlive,
    outlast,
}

#[test]
fn every_attempt_of_the_table_has_its_test() {
    let names = ATTEMPTS.iter().map(|attempt| attempt.name).collect::<Vec<_>>();
    assert_eq!(names, TESTED);
}

#[test]
fn all_are_held_by_the_fallback_as_well() {
    let results = attempt(&["--fallback"]);
    assert_eq!(results.len(), ATTEMPTS.len());
    let lost = results
        .iter()
        .filter(|result| result["verdict"] != "pass")
        .collect::<Vec<_>>();
    assert!(lost.is_empty(), "{lost:#?}");
}

#[test]
fn without_namespaces_the_fallback_is_tried_and_what_it_has_not_is_not_available() {
    let (home, repository) = (Home::empty(), folder(&[]));
    let names = [
        "change_mode_outside",
        "read_outside",
        "install-other-place",
        "install-rights",
    ];
    let arguments = [&["__sandbox-probes", "--json"], &names[..]].concat();
    let finished = without_namespaces(&home, repository.path(), &arguments).expect(0);
    let results: Value = serde_json::from_str(&finished.stdout).unwrap_or_else(|_| panic!("{finished:?}"));
    let told: Vec<_> = results.as_array().expect("it is a list").iter().collect();
    let verdicts: Vec<_> = told
        .iter()
        .map(|result| (&result["name"], &result["verdict"]))
        .collect();
    let expected = ["read_outside", "change_mode_outside"].map(|name| (Value::from(name), Value::from("pass")));
    let absent = ["install-other-place", "install-rights"].map(|name| (Value::from(name), "not-available".into()));
    let expected: Vec<_> = expected
        .iter()
        .chain(&absent)
        .map(|(name, verdict)| (name, verdict))
        .collect();
    assert_eq!(verdicts, expected, "{told:#?}");
    assert_eq!(told[0]["detail"], "refused: EACCES", "which is what the fallback says");
}
