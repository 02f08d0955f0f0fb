//! Reservations of an NVMe device, through the kernel.
//!
//! Registering, reserving and preempting are the block layer's `ioctl`s (`linux/pr.h`). It has none for the report, before
//! Linux 7, so that is an NVMe command: *Reservation Report*, NVM Express Base Specification.
//!
//! Linux 6.1 wants `CAP_SYS_ADMIN` for all of them; 6.12 is content with a file that was opened for writing.
//!
//! The `unsafe` of this file is sound because each argument is a plain structure of the kernel's layout, which the system call
//! reads while this thread waits for it; the one that names a buffer names one that outlives the call.
#![allow(unsafe_code)]

use std::{
    ffi::c_void,
    fs::{File, OpenOptions},
    io,
    path::Path,
};

use rustix::{
    io::Errno,
    ioctl::{Ioctl, IoctlOutput, Opcode, ioctl, opcode},
};

use super::{Registrants, Reservations, reservation_conflict};

/// `PR_WRITE_EXCLUSIVE_REG_ONLY`, which is NVMe's type 3h as well.
const WRITE_EXCLUSIVE_REGISTRANTS_ONLY: u32 = 3;
/// `PR_FL_IGNORE_KEY`
const IGNORE_KEY: u32 = 1;

/// The kernel passes the device's status on, as a positive result: NVMe's *Reservation Conflict*, or, since Linux 6.3, SCSI's.
const CONFLICT_NVME: i32 = 0x83;
const CONFLICT_SCSI: i32 = 0x18;
/// *Host Identifier Inconsistent Format*: the device wants the report in its other format.
const OTHER_FORMAT: i32 = 0x18;
/// A status without the bits that say whether to try again.
const STATUS_MASK: i32 = 0x7ff;

/// *Reservation Report*
const REPORT: u8 = 0x0e;
/// Sixteen hosts at most are attached to a volume; their registrations need 64 bytes each, after a header of 64.
const REPORT_BYTES: usize = 4096;

#[repr(C)]
struct Registration {
    old_key: u64,
    new_key: u64,
    flags: u32,
    pad: u32,
}

#[repr(C)]
struct Reservation {
    key: u64,
    kind: u32,
    flags: u32,
}

/// The kernel's names mislead: the old key is that of the caller, the new one is the one to be preempted.
#[repr(C)]
struct Preemption {
    old_key: u64,
    new_key: u64,
    kind: u32,
    flags: u32,
}

/// `struct nvme_passthru_cmd`
#[repr(C)]
#[derive(Default)]
struct Command {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    words_2_and_3: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    data_bytes: u32,
    words_10_to_15: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

const REGISTER: Opcode = opcode::write::<Registration>(b'p', 200);
const RESERVE: Opcode = opcode::write::<Reservation>(b'p', 201);
const PREEMPT_AND_ABORT: Opcode = opcode::write::<Preemption>(b'p', 204);
/// `NVME_IOCTL_ID`
const NAMESPACE: Opcode = opcode::none(b'N', 0x40);
/// `NVME_IOCTL_IO_CMD`
const IO_COMMAND: Opcode = opcode::read_write::<Command>(b'N', 0x43);

/// A system call with a structure; gives its result, which is positive where the device has refused.
struct Call<T> {
    opcode: Opcode,
    argument: T,
}

// SAFETY: every `Call` in this file pairs an opcode with the structure that the kernel reads for it, and nothing that Rust
// knows of is changed but the argument itself.
unsafe impl<T> Ioctl for Call<T> {
    type Output = i32;

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        self.opcode
    }

    fn as_ptr(&mut self) -> *mut c_void {
        (&raw mut self.argument).cast()
    }

    unsafe fn output_from_ptr(result: IoctlOutput, _: *mut c_void) -> rustix::io::Result<i32> {
        Ok(result)
    }
}

/// An NVMe device.
#[derive(Debug)]
pub(super) struct NvmeReservations {
    device: File,
    namespace: u32,
}

impl NvmeReservations {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let device = OpenOptions::new().read(true).write(true).open(path)?;
        let id = Call {
            opcode: NAMESPACE,
            argument: (),
        };
        // SAFETY: see the module.
        let id = unsafe { ioctl(&device, id) }.map_err(|error| match error {
            Errno::NOTTY | Errno::INVAL => io::Error::new(
                io::ErrorKind::Unsupported,
                "it is no NVMe device; only io2 volumes with Multi-Attach, attached to Nitro instances, have reservations",
            ),
            error => error.into(),
        })?;
        let namespace = u32::try_from(id).map_err(io::Error::other)?;
        Ok(Self { device, namespace })
    }

    fn call<T>(&self, opcode: Opcode, argument: T) -> io::Result<()> {
        // SAFETY: see the module.
        let status =
            unsafe { ioctl(&self.device, Call { opcode, argument }) }.map_err(explained)?;
        match status & STATUS_MASK {
            0 => Ok(()),
            CONFLICT_NVME | CONFLICT_SCSI => Err(reservation_conflict()),
            status => Err(refused(status)),
        }
    }

    /// Asks for the report, in the format with long host identifiers or in the one with short ones.
    fn report(&self, extended: bool) -> io::Result<Result<Box<[u8; REPORT_BYTES]>, i32>> {
        let mut bytes = Box::new([0; REPORT_BYTES]);
        let words = (REPORT_BYTES / 4) as u32 - 1;
        let argument = Command {
            opcode: REPORT,
            namespace: self.namespace,
            address: bytes.as_mut_ptr().expose_provenance() as u64,
            data_bytes: REPORT_BYTES as u32,
            words_10_to_15: [words, u32::from(extended), 0, 0, 0, 0],
            ..Command::default()
        };
        let call = Call {
            opcode: IO_COMMAND,
            argument,
        };
        // SAFETY: see the module. The device writes at most `data_bytes` to `bytes`, before the call returns.
        let status = unsafe { ioctl(&self.device, call) }.map_err(explained)?;
        Ok(match status & STATUS_MASK {
            0 => Ok(bytes),
            status => Err(status),
        })
    }
}

fn explained(error: Errno) -> io::Error {
    let hint = match error {
        Errno::PERM | Errno::ACCESS => {
            "older kernels (6.1) need CAP_SYS_ADMIN for reservations: grant it to the broker (AmbientCapabilities in its unit), or use 6.12"
        }
        Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL => {
            "the device has no reservations: it must be an io2 volume with Multi-Attach that was created, or fully detached, \
             after 18 September 2023"
        }
        error => return error.into(),
    };
    io::Error::new(io::Error::from(error).kind(), format!("{hint} ({error})"))
}

fn refused(status: i32) -> io::Error {
    io::Error::other(format!(
        "the device refuses the reservation command with the NVMe status {status:#x}"
    ))
}

impl Reservations for NvmeReservations {
    fn register(&self, key: u64) -> io::Result<()> {
        let registration = |old_key, flags| Registration {
            old_key,
            new_key: key,
            flags,
            pad: 0,
        };
        // Replacing a key is another command than registering the first one, which the kernel chooses by the old key.
        match self.call(REGISTER, registration(0, 0)) {
            Err(error) if super::is_reservation_conflict(&error) => {
                self.call(REGISTER, registration(key, IGNORE_KEY))
            }
            registered => registered,
        }
    }

    fn reserve(&self, key: u64) -> io::Result<()> {
        let argument = Reservation {
            key,
            kind: WRITE_EXCLUSIVE_REGISTRANTS_ONLY,
            flags: 0,
        };
        self.call(RESERVE, argument)
    }

    /// *Preempt and Abort*: a plain preemption would let writes succeed that the device has begun.
    fn preempt(&self, key: u64, other: u64) -> io::Result<()> {
        let argument = Preemption {
            old_key: key,
            new_key: other,
            kind: WRITE_EXCLUSIVE_REGISTRANTS_ONLY,
            flags: 0,
        };
        self.call(PREEMPT_AND_ABORT, argument)
    }

    fn registrants(&self) -> io::Result<Registrants> {
        match self.report(true)? {
            Ok(bytes) => decode(&bytes[..], Format::EXTENDED),
            Err(OTHER_FORMAT) => match self.report(false)? {
                Ok(bytes) => decode(&bytes[..], Format::SHORT),
                Err(status) => Err(refused(status)),
            },
            Err(status) => Err(refused(status)),
        }
    }
}

/// Where a report has what, in bytes. Both formats begin with the generation (4 bytes), the reservation's type (1) and the
/// number of registrants (2); each registrant begins with its controller (2) and its status (1).
struct Format {
    header: usize,
    registrant: usize,
    key: usize,
}

impl Format {
    /// Host identifiers of 64 bits.
    const SHORT: Self = Self {
        header: 24,
        registrant: 24,
        key: 16,
    };
    /// Host identifiers of 128 bits.
    const EXTENDED: Self = Self {
        header: 64,
        registrant: 64,
        key: 8,
    };
}

fn decode(report: &[u8], format: Format) -> io::Result<Registrants> {
    let short = || {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "the device's reservation report is too short",
        )
    };
    let count = report.get(5..7).ok_or_else(short)?;
    let count = usize::from(u16::from_le_bytes(
        count.try_into().map_err(io::Error::other)?,
    ));
    let all = report.get(format.header..).ok_or_else(short)?;
    let mut registrants = Registrants::default();
    let found = all.chunks_exact(format.registrant).take(count);
    if found.len() < count {
        return Err(short());
    }
    for registrant in found {
        let key = registrant
            .get(format.key..format.key + 8)
            .ok_or_else(short)?;
        let key = u64::from_le_bytes(key.try_into().map_err(io::Error::other)?);
        if registrant.get(2).is_some_and(|status| status & 1 == 1) {
            registrants.holder = Some(key);
        }
        // A host has a registration for each of its controllers.
        if !registrants.keys.contains(&key) {
            registrants.keys.push(key);
        }
    }
    Ok(registrants)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the specification draws it.
    fn report(format: &Format, registrants: &[(u8, u64)]) -> Vec<u8> {
        let mut bytes = vec![0; format.header];
        bytes[4] = 3;
        bytes[5..7].copy_from_slice(&(registrants.len() as u16).to_le_bytes());
        for (status, key) in registrants {
            let mut registrant = vec![0xEE; format.registrant];
            registrant[2] = *status;
            registrant[format.key..format.key + 8].copy_from_slice(&key.to_le_bytes());
            bytes.extend(registrant);
        }
        bytes
    }

    #[test]
    fn both_formats_of_the_report_are_read() {
        for format in [Format::SHORT, Format::EXTENDED] {
            let mut bytes = report(&format, &[(0, 7), (1, 9), (0, 7)]);
            bytes.resize(REPORT_BYTES, 0);
            let expected = Registrants {
                keys: vec![7, 9],
                holder: Some(9),
            };
            assert_eq!(decode(&bytes, format).expect("complete"), expected);
        }
        let empty = report(&Format::SHORT, &[]);
        assert_eq!(
            decode(&empty, Format::SHORT).expect("complete"),
            Registrants::default()
        );
    }

    #[test]
    fn a_report_that_ends_early_is_an_error() {
        let bytes = report(&Format::EXTENDED, &[(0, 7), (1, 9)]);
        for end in [0, 6, 64, 128, 191] {
            assert!(decode(&bytes[..end], Format::EXTENDED).is_err(), "{end}");
        }
    }

    #[test]
    fn the_arguments_are_laid_out_as_the_kernel_has_them() {
        assert_eq!(size_of::<Registration>(), 24);
        assert_eq!(size_of::<Reservation>(), 16);
        assert_eq!(size_of::<Preemption>(), 24);
        assert_eq!(size_of::<Command>(), 72);
        assert_eq!(std::mem::offset_of!(Command, address), 24);
        assert_eq!(std::mem::offset_of!(Command, words_10_to_15), 40);
        assert_eq!(
            [REGISTER, RESERVE, PREEMPT_AND_ABORT, NAMESPACE, IO_COMMAND].map(|code| code as u64),
            [0x4018_70c8, 0x4010_70c9, 0x4018_70cc, 0x4e40, 0xc048_4e43]
        );
    }

    #[test]
    fn what_is_no_nvme_device_is_refused_with_what_is_needed() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let refused = NvmeReservations::open(file.path()).expect_err("no device");
        assert!(refused.to_string().contains("io2"), "{refused}");
    }
}
