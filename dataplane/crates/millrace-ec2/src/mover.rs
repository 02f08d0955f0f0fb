//! Attaching a volume to this instance, wherever it is.
//!
//! EC2 does nothing at once, and what it describes may be older than what it was asked. So nothing is remembered but how long
//! it takes: each step looks where the volume is and asks for the next change. A process that dies between two steps
//! is followed by one that begins with a look.

use std::{fmt, sync::Arc, time::Duration};

use millrace_time::{SharedClock, SharedRandom};

use crate::{
    Attachment, AttachmentState, Instance, InstanceId, Volume, VolumeError, VolumeId, Volumes,
};

/// Names that AWS recommends for EBS volumes.
const NAMES: std::ops::RangeInclusive<char> = 'f'..='p';

/// How long the steps are waited for.
#[derive(Debug, Clone, Copy)]
pub struct MovePace {
    /// Between two looks.
    pub look: Duration,
    /// Between two looks at most, while EC2 throttles.
    pub look_max: Duration,
    /// An instance that does not let go of the volume for so long is not asked any more. What its file systems have in memory
    /// would be lost.
    pub force_after: Duration,
    /// An attachment that takes so long is begun again, under another name: a name that a forced detachment has left behind may
    /// be stuck until the instance is rebooted.
    pub attach_again_after: Duration,
    /// Then it is an error.
    pub give_up_after: Duration,
}

impl Default for MovePace {
    /// EC2 detaches and attaches in a few seconds, as a rule. Whoever is fenced this way is waited for by nobody else.
    fn default() -> Self {
        Self {
            look: Duration::from_secs(1),
            look_max: Duration::from_secs(15),
            force_after: Duration::from_secs(15),
            attach_again_after: Duration::from_secs(60),
            give_up_after: Duration::from_secs(600),
        }
    }
}

/// Why a volume was not moved. Trying again begins where this has ended.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// EC2 refuses.
    #[error("the volume {volume} cannot be moved: {source}")]
    Refused {
        /// The volume.
        volume: VolumeId,
        /// Why.
        source: VolumeError,
    },
    /// The volume is in another zone than this instance.
    #[error(
        "the volume {volume} is in the availability zone {of_volume} and the instance {instance} in {of_instance}: only an \
         instance in {of_volume} can attach it; start a broker there"
    )]
    OtherZone {
        /// The volume.
        volume: VolumeId,
        /// Its zone.
        of_volume: String,
        /// This instance.
        instance: InstanceId,
        /// The instance's zone.
        of_instance: String,
    },
    /// Another instance may have the volume as well, so detaching it is no fence.
    #[error(
        "the volume {0} has Multi-Attach, which fence=detach is not for: other instances may have it at the same time; set \
         fence=reservation, or turn Multi-Attach off while the volume is detached"
    )]
    Shared(VolumeId),
    /// It takes too long.
    #[error("the volume {volume} was not moved within {after:?}: {state}")]
    TooLong {
        /// The volume.
        volume: VolumeId,
        /// How long it was tried.
        after: Duration,
        /// Where it is, or what EC2 says.
        state: String,
    },
}

impl MoveError {
    /// Whether the same step may succeed later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Refused {
                source: VolumeError::Unavailable(_),
                ..
            }
        )
    }
}

/// What a step found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The volume is attached to this instance. Its device may still have to appear.
    Here,
    /// It is at another instance, and was left there.
    Elsewhere,
    /// It is about to be attached to this instance.
    Attaching,
    /// It is on its way.
    Moving,
}

/// Moves volumes to this instance. Cheap to clone.
#[derive(Debug, Clone)]
pub struct VolumeMover {
    volumes: Arc<dyn Volumes>,
    instance: Instance,
    clock: SharedClock,
    random: SharedRandom,
    pace: MovePace,
}

/// Waits between looks at one volume.
struct Patience<'a> {
    mover: &'a VolumeMover,
    volume: &'a VolumeId,
    started: Duration,
    unavailable: u32,
    last: String,
}

impl VolumeMover {
    /// Moves volumes to `instance`.
    #[must_use]
    pub fn new(
        volumes: Arc<dyn Volumes>,
        instance: Instance,
        (clock, random): (SharedClock, SharedRandom),
        pace: MovePace,
    ) -> Self {
        Self {
            volumes,
            instance,
            clock,
            random,
            pace,
        }
    }

    /// This instance.
    #[must_use]
    pub fn instance(&self) -> &Instance {
        &self.instance
    }

    /// How long steps are waited for.
    #[must_use]
    pub fn pace(&self) -> MovePace {
        self.pace
    }

    /// Attaches the volume to this instance, after it was detached from all others. When this returns, no write of another
    /// instance reaches it.
    ///
    /// # Errors
    /// EC2 refuses, the volume is in another zone, or it takes too long.
    pub async fn bring_here(&self, volume: &VolumeId) -> Result<(), MoveError> {
        let mut patience = self.patience(volume);
        let mut attaching = None;
        loop {
            let mut stepped = self.step(volume, Some(patience.started)).await;
            if matches!(stepped, Ok(Step::Attaching)) {
                let since = *attaching.get_or_insert_with(|| self.clock.now());
                if self.clock.now().saturating_sub(since) >= self.pace.attach_again_after {
                    attaching = None;
                    stepped = self.step_away(volume, patience.started).await;
                }
            }
            match patience.note(stepped)? {
                Some(Step::Here) => return Ok(()),
                step => patience.wait(step).await?,
            }
        }
    }

    /// Detaches the volume from this instance, so that another one may attach it.
    ///
    /// # Errors
    /// As [`bring_here`](Self::bring_here).
    pub async fn let_go(&self, volume: &VolumeId) -> Result<(), MoveError> {
        let mut patience = self.patience(volume);
        loop {
            let stepped = self.step_away(volume, patience.started).await;
            match patience.note(stepped)? {
                Some(Step::Elsewhere) => return Ok(()),
                step => patience.wait(step).await?,
            }
        }
    }

    /// One step of attaching the volume here. It is taken from other instances only where `since` says when that began; they are
    /// asked for it first, and forced later.
    ///
    /// # Errors
    /// EC2 refuses, or the volume is in another zone.
    pub async fn step(
        &self,
        volume: &VolumeId,
        since: Option<Duration>,
    ) -> Result<Step, MoveError> {
        let found = self.look(volume).await?;
        let (own, others) = self.split(&found);
        if !others.is_empty() {
            let Some(since) = since else {
                return Ok(Step::Elsewhere);
            };
            for other in others {
                self.detach(volume, other, since).await?;
            }
            return Ok(Step::Moving);
        }
        let Some(own) = own else {
            if found.is_available {
                self.attach(volume).await?;
            }
            return Ok(Step::Moving);
        };
        match own.state {
            AttachmentState::Attached => Ok(Step::Here),
            AttachmentState::Attaching => Ok(Step::Attaching),
            // A detachment that was asked for, by this instance before it crashed or by another one.
            AttachmentState::Busy => {
                let since = since.unwrap_or_else(|| self.clock.now());
                self.detach(volume, own, since).await?;
                Ok(Step::Moving)
            }
            _ => Ok(Step::Moving),
        }
    }

    async fn step_away(&self, volume: &VolumeId, since: Duration) -> Result<Step, MoveError> {
        let found = self.look(volume).await?;
        let (Some(own), _) = self.split(&found) else {
            return Ok(Step::Elsewhere);
        };
        self.detach(volume, own, since).await?;
        Ok(Step::Moving)
    }

    /// Where the volume is attached to this instance, and where to others.
    fn split<'a>(&self, found: &'a Volume) -> (Option<&'a Attachment>, Vec<&'a Attachment>) {
        let mut own = None;
        let mut others = Vec::new();
        for attachment in &found.attachments {
            if attachment.instance == self.instance.id {
                own = Some(attachment);
            } else {
                others.push(attachment);
            }
        }
        (own, others)
    }

    /// The volume, without attachments that are over.
    async fn look(&self, volume: &VolumeId) -> Result<Volume, MoveError> {
        let found = self.volumes.describe(volume).await;
        let mut found = found.map_err(|source| self.refused(volume, source))?;
        if found.is_shared {
            return Err(MoveError::Shared(volume.clone()));
        }
        if !self.instance.is_in(&found.zone) {
            return Err(MoveError::OtherZone {
                volume: volume.clone(),
                of_volume: found.zone,
                instance: self.instance.id.clone(),
                of_instance: self.instance.zone.clone(),
            });
        }
        found
            .attachments
            .retain(|attachment| attachment.state != AttachmentState::Detached);
        Ok(found)
    }

    async fn detach(
        &self,
        volume: &VolumeId,
        from: &Attachment,
        since: Duration,
    ) -> Result<(), MoveError> {
        let waited = self.clock.now().saturating_sub(since);
        let force = waited >= self.pace.force_after;
        let asked = matches!(
            from.state,
            AttachmentState::Detaching | AttachmentState::Busy
        );
        if asked && !force {
            return Ok(());
        }
        tracing::info!(%volume, instance = %from.instance, force, "detaching a volume");
        let detached = self.volumes.detach(volume, &from.instance, force).await;
        self.unless_changed(volume, detached)
    }

    async fn attach(&self, volume: &VolumeId) -> Result<(), MoveError> {
        let instance = &self.instance.id;
        let taken = self.volumes.device_names(instance).await;
        let taken = taken.map_err(|source| self.refused(volume, source))?;
        // A name may be free in the description and taken all the same, so not every instance tries the same one first.
        let mut free: Vec<_> = NAMES
            .map(|letter| format!("/dev/sd{letter}"))
            .filter(|name| !taken.contains(name))
            .collect();
        if free.is_empty() {
            let source = VolumeError::NameTaken("all of /dev/sd[f-p] are".to_owned());
            return Err(self.refused(volume, source));
        }
        let some = self.random.below(free.len() as u64) as usize;
        let name = free.swap_remove(some);
        tracing::info!(%volume, %instance, name, "attaching a volume");
        let attached = self.volumes.attach(volume, instance, &name).await;
        self.unless_changed(volume, attached)
    }

    /// What has changed since the look is seen with the next one.
    fn unless_changed(
        &self,
        volume: &VolumeId,
        done: Result<(), VolumeError>,
    ) -> Result<(), MoveError> {
        match done {
            Err(error @ (VolumeError::OtherState(_) | VolumeError::NameTaken(_))) => {
                tracing::info!(%volume, %error, "looking again");
                Ok(())
            }
            done => done.map_err(|source| self.refused(volume, source)),
        }
    }

    fn refused(&self, volume: &VolumeId, source: VolumeError) -> MoveError {
        MoveError::Refused {
            volume: volume.clone(),
            source,
        }
    }

    fn patience<'a>(&'a self, volume: &'a VolumeId) -> Patience<'a> {
        Patience {
            mover: self,
            volume,
            started: self.clock.now(),
            unavailable: 0,
            last: String::new(),
        }
    }
}

impl Patience<'_> {
    /// What a step found; `None` where EC2 is asked again.
    fn note(&mut self, stepped: Result<Step, MoveError>) -> Result<Option<Step>, MoveError> {
        match stepped {
            Ok(step) => {
                self.unavailable = 0;
                Ok(Some(step))
            }
            Err(MoveError::Refused {
                source: error @ VolumeError::Unavailable(_),
                volume,
            }) => {
                self.unavailable += 1;
                self.last = error.to_string();
                tracing::warn!(%volume, %error, "EC2 is asked again");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Waits before the next look: longer each time while EC2 throttles, and for a random part of it, as many may ask.
    async fn wait(&mut self, step: Option<Step>) -> Result<(), MoveError> {
        if let Some(step) = step {
            self.last = step.to_string();
        }
        let pace = self.mover.pace;
        let waited = self.mover.clock.now().saturating_sub(self.started);
        if waited >= pace.give_up_after {
            return Err(MoveError::TooLong {
                volume: self.volume.clone(),
                after: waited,
                state: self.last.clone(),
            });
        }
        let doubled = pace.look.saturating_mul(1 << self.unavailable.min(16));
        let pause = doubled.min(pace.look_max.max(pace.look));
        let pause = if self.unavailable > 0 {
            let half_us = u64::try_from(pause.as_micros() / 2).unwrap_or(u64::MAX - 1);
            pause / 2 + Duration::from_micros(self.mover.random.below(half_us + 1))
        } else {
            pause
        };
        tokio::time::sleep(pause).await;
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Here => "it is attached here",
            Self::Elsewhere => "it is attached to another instance",
            Self::Attaching => "it is still attaching",
            Self::Moving => "it is still detaching",
        })
    }
}
