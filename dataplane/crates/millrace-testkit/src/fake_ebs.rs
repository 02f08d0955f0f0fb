//! EBS without EC2: volumes, the instances that they are attached to, and the API that moves them, as AWS documents it.
//!
//! - What is asked for takes time. Until then the volume is `attaching` or `detaching`.
//! - An instance whose system hangs keeps the volume: it stays `busy` until it is detached by force.
//! - A volume without Multi-Attach is attached to one instance (`VolumeInUse`), of its own zone; what is not attached is not
//!   detached (`IncorrectState`).
//! - The device appears some time after the volume was attached, under a name that no device had before.
//! - A detached volume takes no writes. Those under way are answered with an error, and each may be on the disk.
//! - The API throttles (`RequestLimitExceeded`).

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use futures_util::FutureExt;
use millrace_ec2::{
    Attachment, AttachmentState, Instance, InstanceId, Volume, VolumeError, VolumeId, Volumes,
};
use millrace_time::SharedClock;
use millrace_wal::{
    AlignedBuf,
    device::{BlockDevice, DeviceFuture},
};
use parking_lot::Mutex;

use crate::SimDisk;

/// `ENODEV` of Linux.
const NO_DEVICE: i32 = 19;

/// How long things take.
#[derive(Debug, Clone, Copy)]
pub struct EbsPace {
    /// From the request to `attached`.
    pub attach: Duration,
    /// From there to the device.
    pub appear: Duration,
    /// From the request to `available`.
    pub detach: Duration,
}

/// All volumes and instances. Clones are the same.
#[derive(Debug, Clone)]
pub struct FakeEbs {
    world: Arc<Mutex<World>>,
    clock: SharedClock,
    pace: EbsPace,
}

#[derive(Debug, Default)]
struct World {
    volumes: BTreeMap<String, FakeVolume>,
    hanging: BTreeSet<String>,
    throttled: u32,
    sticking: u32,
    devices: u32,
    requests: Vec<String>,
    requests_until_death: Option<u32>,
}

#[derive(Debug)]
struct FakeVolume {
    zone: String,
    is_shared: bool,
    disk: SimDisk,
    at: Option<At>,
}

#[derive(Debug, Clone)]
struct At {
    instance: String,
    name: String,
    device: PathBuf,
    attached: Duration,
    appears: Duration,
    /// Asked to go, and when it is gone.
    leaving: Option<Leaving>,
}

#[derive(Debug, Clone, Copy)]
enum Leaving {
    Until(Duration),
    Busy,
}

/// An instance, which sees its own devices, and may ask the API about all volumes.
#[derive(Debug, Clone)]
pub struct FakeInstance {
    ebs: FakeEbs,
    instance: Instance,
}

impl FakeEbs {
    /// No volumes yet.
    #[must_use]
    pub fn new(clock: SharedClock, pace: EbsPace) -> Self {
        Self {
            world: Arc::default(),
            clock,
            pace,
        }
    }

    /// A volume that is on `disk`.
    pub fn create(&self, volume: &VolumeId, zone: &str, disk: SimDisk) {
        let created = FakeVolume {
            zone: zone.to_owned(),
            is_shared: false,
            disk,
            at: None,
        };
        self.world
            .lock()
            .volumes
            .insert(volume.to_string(), created);
    }

    /// Turns Multi-Attach on.
    pub fn share(&self, volume: &VolumeId) {
        let world = &mut *self.world.lock();
        world
            .volumes
            .get_mut(&volume.to_string())
            .expect("created")
            .is_shared = true;
    }

    /// An instance in a zone.
    #[must_use]
    pub fn instance(&self, id: &str, zone: &str) -> FakeInstance {
        let instance = Instance {
            id: InstanceId(id.to_owned()),
            region: "eu-central-1".to_owned(),
            zone: zone.to_owned(),
            zone_id: format!("id-of-{zone}"),
        };
        FakeInstance {
            ebs: self.clone(),
            instance,
        }
    }

    /// The instance's system does not answer any more.
    pub fn hang(&self, instance: &FakeInstance) {
        self.world
            .lock()
            .hanging
            .insert(instance.instance.id.0.clone());
    }

    /// So many requests are refused.
    pub fn throttle(&self, requests: u32) {
        self.world.lock().throttled = requests;
    }

    /// So many attachments never end.
    pub fn stick(&self, attachments: u32) {
        self.world.lock().sticking = attachments;
    }

    /// After so many requests more, none is answered any more: whoever asks has died.
    pub fn die_after(&self, requests: Option<u32>) {
        self.world.lock().requests_until_death = requests;
    }

    /// The requests so far: `detach i-1 force`.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        self.world.lock().requests.clone()
    }

    async fn request<T>(
        &self,
        text: String,
        run: impl FnOnce(&mut World, Duration) -> Result<T, VolumeError>,
    ) -> Result<T, VolumeError> {
        let answered = {
            let world = &mut *self.world.lock();
            match &mut world.requests_until_death {
                Some(0) => None,
                left => {
                    if let Some(left) = left {
                        *left -= 1;
                    }
                    world.requests.push(text);
                    Some(if world.throttled > 0 {
                        world.throttled -= 1;
                        let code = "RequestLimitExceeded".to_owned();
                        Err(VolumeError::Unavailable(code))
                    } else {
                        let now = self.clock.now();
                        world.settle(now);
                        run(world, now)
                    })
                }
            }
        };
        match answered {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }
}

impl World {
    /// Does what was asked for as long ago as it takes.
    fn settle(&mut self, now: Duration) {
        for volume in self.volumes.values_mut() {
            if let Some(At {
                leaving: Some(Leaving::Until(gone)),
                ..
            }) = volume.at
                && gone <= now
            {
                volume.at = None;
            }
        }
    }

    fn volume(&mut self, volume: &VolumeId) -> Result<&mut FakeVolume, VolumeError> {
        let found = self.volumes.get_mut(&volume.to_string());
        found.ok_or_else(|| VolumeError::Refused {
            action: "DescribeVolumes",
            text: "InvalidVolume.NotFound".to_owned(),
        })
    }

    /// Whether the device is there, at an instance.
    fn has(&mut self, device: &Path, now: Duration) -> Option<SimDisk> {
        self.settle(now);
        let found = self.volumes.values().find(|volume| {
            let at = volume.at.as_ref();
            at.is_some_and(|at| at.device == device && at.appears <= now)
        });
        found.map(|volume| volume.disk.clone())
    }
}

impl FakeInstance {
    /// What the metadata service says.
    #[must_use]
    pub fn identity(&self) -> Instance {
        self.instance.clone()
    }

    /// The volume's device here, once it has appeared.
    #[must_use]
    pub fn find(&self, volume: &VolumeId) -> Option<PathBuf> {
        let now = self.ebs.clock.now();
        let world = &mut *self.ebs.world.lock();
        world.settle(now);
        let at = world.volumes.get(&volume.to_string())?.at.as_ref()?;
        (at.instance == self.instance.id.0 && at.appears <= now).then(|| at.device.clone())
    }

    /// Opens a device of this instance.
    ///
    /// # Errors
    /// It is not there.
    pub fn open(&self, device: &Path) -> io::Result<Arc<dyn BlockDevice>> {
        let disk = self.ebs.world.lock().has(device, self.ebs.clock.now());
        Ok(Arc::new(InstanceDevice {
            inner: disk.ok_or(io::ErrorKind::NotFound)?.attach(),
            ebs: self.ebs.clone(),
            device: device.to_owned(),
        }))
    }
}

#[async_trait]
impl Volumes for FakeInstance {
    async fn describe(&self, volume: &VolumeId) -> Result<Volume, VolumeError> {
        let describe = |world: &mut World, now| {
            let found = world.volume(volume)?;
            let attachment = |at: &At| Attachment {
                instance: InstanceId(at.instance.clone()),
                state: match at.leaving {
                    Some(Leaving::Until(_)) => AttachmentState::Detaching,
                    Some(Leaving::Busy) => AttachmentState::Busy,
                    None if at.attached > now => AttachmentState::Attaching,
                    None => AttachmentState::Attached,
                },
            };
            Ok(Volume {
                zone: found.zone.clone(),
                is_available: found.at.is_none(),
                is_shared: found.is_shared,
                attachments: found.at.iter().map(attachment).collect(),
            })
        };
        self.ebs.request("describe".to_owned(), describe).await
    }

    async fn device_names(&self, instance: &InstanceId) -> Result<Vec<String>, VolumeError> {
        let names = |world: &mut World, _| {
            let attached = world
                .volumes
                .values()
                .filter_map(|volume| volume.at.as_ref());
            let here = attached.filter(|at| at.instance == instance.0);
            Ok(here.map(|at| at.name.clone()).collect())
        };
        self.ebs.request("device names".to_owned(), names).await
    }

    async fn detach(
        &self,
        volume: &VolumeId,
        instance: &InstanceId,
        force: bool,
    ) -> Result<(), VolumeError> {
        let force_word = if force { " force" } else { "" };
        let detach = |world: &mut World, now| {
            let hangs = world.hanging.contains(&instance.0);
            let found = world.volume(volume)?;
            let at = found.at.as_mut().filter(|at| at.instance == instance.0);
            let at = at.ok_or_else(|| VolumeError::OtherState("IncorrectState".to_owned()))?;
            at.leaving = match at.leaving {
                Some(until @ Leaving::Until(_)) => Some(until),
                _ if hangs && !force => Some(Leaving::Busy),
                _ => Some(Leaving::Until(now + self.ebs.pace.detach)),
            };
            Ok(())
        };
        self.ebs
            .request(format!("detach {instance}{force_word}"), detach)
            .await
    }

    async fn attach(
        &self,
        volume: &VolumeId,
        instance: &InstanceId,
        name: &str,
    ) -> Result<(), VolumeError> {
        let attach = |world: &mut World, now| {
            world.devices += 1;
            let sticks = world.sticking > 0;
            world.sticking = world.sticking.saturating_sub(1);
            let device = PathBuf::from(format!("/dev/nvme{}n1", world.devices));
            let found = world.volume(volume)?;
            if found.zone != self.instance.zone {
                return Err(VolumeError::OtherZone(
                    "InvalidVolume.ZoneMismatch".to_owned(),
                ));
            }
            if found.at.is_some() {
                return Err(VolumeError::OtherState("VolumeInUse".to_owned()));
            }
            let attached = if sticks {
                Duration::MAX / 2
            } else {
                now + self.ebs.pace.attach
            };
            found.at = Some(At {
                instance: instance.0.clone(),
                name: name.to_owned(),
                device,
                attached,
                appears: attached + self.ebs.pace.appear,
                leaving: None,
            });
            Ok(())
        };
        self.ebs.request(format!("attach {instance}"), attach).await
    }
}

#[derive(Debug)]
struct InstanceDevice {
    inner: Arc<dyn BlockDevice>,
    ebs: FakeEbs,
    device: PathBuf,
}

/// Fails where the device is gone.
fn expect(ebs: &FakeEbs, device: &Path) -> io::Result<()> {
    match ebs.world.lock().has(device, ebs.clock.now()) {
        Some(_) => Ok(()),
        None => Err(io::Error::from_raw_os_error(NO_DEVICE)),
    }
}

impl BlockDevice for InstanceDevice {
    fn capacity(&self) -> u64 {
        self.inner.capacity()
    }

    fn write(&self, offset: u64, data: AlignedBuf) -> DeviceFuture<()> {
        let (ebs, device) = (self.ebs.clone(), self.device.clone());
        if let Err(gone) = expect(&ebs, &device) {
            return std::future::ready(Err(gone)).boxed();
        }
        let written = self.inner.write(offset, data);
        async move {
            written.await?;
            expect(&ebs, &device)
        }
        .boxed()
    }

    fn read(&self, offset: u64, len: usize) -> DeviceFuture<AlignedBuf> {
        match expect(&self.ebs, &self.device) {
            Ok(()) => self.inner.read(offset, len),
            Err(gone) => std::future::ready(Err(gone)).boxed(),
        }
    }

    fn sync(&self) -> DeviceFuture<()> {
        self.inner.sync()
    }
}
