//! Which stage a stack belongs to.

/// A stage, and parts of names of functions: a stack with one of them belongs to it, unless an
/// earlier stage has it already.
type Rule = (&'static str, &'static [&'static str]);

/// What the kernel does comes first: whoever asked for it. Then what is done to all bytes, by those
/// that it is done for. The rest is by crate.
const RULES: &[Rule] = &[
    ("page faults", &["exc_page_fault", "asm_exc_page_fault"]),
    (
        "receive",
        &[
            "tcp_recvmsg",
            "sock_recvmsg",
            "__sys_recvfrom",
            "__sys_recvmsg",
        ],
    ),
    (
        "send",
        &[
            "tcp_sendmsg",
            "sock_sendmsg",
            "__sys_sendto",
            "__sys_sendmsg",
            "do_writev",
        ],
    ),
    (
        "submit writes of the log",
        &["io_uring_enter", "io_submit_sqe", "io_wq_worker"],
    ),
    (
        "write objects",
        &[
            "ksys_pwrite64",
            "do_pwritev",
            "__x64_sys_fdatasync",
            "do_fsync",
            "vfs_write",
        ],
    ),
    ("read objects", &["ksys_pread64", "do_preadv", "vfs_read"]),
    (
        "sleep and wake up",
        &[
            "do_futex",
            "epoll_wait",
            "do_epoll",
            "__schedule",
            "eventfd_write",
            "try_to_wake_up",
        ],
    ),
    (
        "interrupts",
        &["asm_sysvec", "asm_common_interrupt", "ret_from_fork"],
    ),
    (
        "allocate",
        &[
            "malloc",
            "calloc",
            "realloc",
            "cfree",
            "_int_free",
            "madvise",
            "munmap",
            "mmap",
        ],
    ),
    ("sum and copy into the log", &["millrace_wal::format"]),
    (
        "sum and copy into objects",
        &[
            "millrace_objects::builder",
            "millrace_objects::bucket::folder",
            "millrace_objects::write",
            "millrace_objects::format",
        ],
    ),
    ("verify batches", &["millrace_record::"]),
    ("log", &["millrace_wal::"]),
    ("upload", &["store::upload", "millrace_objects::"]),
    ("read path", &["millrace_blockcache::"]),
    ("streams", &["millrace_stream::"]),
    ("partitions", &["millrace_log::"]),
    (
        "handle requests",
        &["millrace_api::", "millrace_wire::", "kafka_protocol::"],
    ),
    ("network layer", &["millrace_net::"]),
    (
        "purgatory and limiter",
        &["millrace_purgatory::", "millrace_limiter::"],
    ),
    ("copy, elsewhere", &["memmove", "memcpy"]),
    ("runtime", &["tokio::"]),
];

/// The stage of a folded stack: its functions, the outermost first, separated by semicolons.
pub(super) fn stage_of(stack: &str) -> &'static str {
    let has = |names: &[&str]| names.iter().any(|name| stack.contains(name));
    let rule = RULES.iter().find(|(_, names)| has(names));
    rule.map_or("other", |(stage, _)| stage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_comes_before_whoever_asked() {
        let copy = "background;millrace_wal::format::chunk::Bodies::copy;__memmove_avx_unaligned";
        assert_eq!(stage_of(copy), "sum and copy into the log");
        let fault = format!("{copy};asm_exc_page_fault;clear_page_erms");
        assert_eq!(stage_of(&fault), "page faults");
        assert_eq!(stage_of("worker;main"), "other");
    }
}
