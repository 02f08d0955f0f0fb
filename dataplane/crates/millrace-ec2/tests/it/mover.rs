//! Volumes are moved on an EBS of simulated slowness.

use std::{sync::Arc, time::Duration};

use millrace_ec2::{MoveError, MovePace, Step, VolumeId, VolumeMover};
use millrace_testkit::{EbsPace, FakeEbs, FakeInstance, SimDisk};
use millrace_time::{SeededRandom, SystemClock};

const PACE: MovePace = MovePace {
    look: Duration::from_millis(2),
    look_max: Duration::from_millis(20),
    force_after: Duration::from_millis(100),
    attach_again_after: Duration::from_secs(1),
    give_up_after: Duration::from_secs(20),
};

struct World {
    ebs: FakeEbs,
    volume: VolumeId,
}

impl World {
    /// One volume in `zone-a`.
    fn new() -> Self {
        let pace = EbsPace {
            attach: Duration::from_millis(20),
            appear: Duration::from_millis(20),
            detach: Duration::from_millis(20),
        };
        let ebs = FakeEbs::new(SystemClock::shared(), pace);
        let volume = "vol-0123456789abcdef0".parse().expect("legal");
        let disk = SimDisk::new(1 << 20, Duration::ZERO, SeededRandom::shared(1));
        ebs.create(&volume, "zone-a", disk);
        Self { ebs, volume }
    }

    fn instance(&self, id: &str) -> (FakeInstance, VolumeMover) {
        self.instance_in("zone-a", id)
    }

    fn instance_in(&self, zone: &str, id: &str) -> (FakeInstance, VolumeMover) {
        let instance = self.ebs.instance(id, zone);
        let seams = (SystemClock::shared(), SeededRandom::shared(1));
        let mover = VolumeMover::new(Arc::new(instance.clone()), instance.identity(), seams, PACE);
        (instance, mover)
    }

    fn was_forced(&self) -> bool {
        self.ebs
            .requests()
            .iter()
            .any(|request| request.ends_with("force"))
    }
}

async fn device(instance: &FakeInstance, volume: &VolumeId) {
    while instance.find(volume).is_none() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_volume_is_attached_from_wherever_it_is() {
    let world = World::new();
    let ((one, to_one), (two, to_two)) = (world.instance("i-1"), world.instance("i-2"));
    to_one.bring_here(&world.volume).await.expect("it was free");
    to_one.bring_here(&world.volume).await.expect("it is here");
    device(&one, &world.volume).await;
    let path = one.find(&world.volume).expect("there");
    let disk = one.open(&path).expect("opens");
    to_two
        .bring_here(&world.volume)
        .await
        .expect("it was elsewhere");
    device(&two, &world.volume).await;
    assert_eq!(one.find(&world.volume), None);
    assert_ne!(two.find(&world.volume), Some(path), "a new name");
    assert!(disk.read(0, 4096).await.is_err(), "the device is gone");
    to_two.let_go(&world.volume).await.expect("lets go");
    to_two.let_go(&world.volume).await.expect("it is gone");
    assert!(!world.was_forced());
}

#[tokio::test]
async fn an_instance_that_hangs_is_forced_to_let_go_after_a_while() {
    let world = World::new();
    let ((one, to_one), (_, to_two)) = (world.instance("i-1"), world.instance("i-2"));
    to_one.bring_here(&world.volume).await.expect("it was free");
    world.ebs.hang(&one);
    to_two.bring_here(&world.volume).await.expect("by force");
    let requests = world.ebs.requests();
    let detached: Vec<_> = requests
        .iter()
        .filter(|it| it.starts_with("detach"))
        .collect();
    assert_eq!(detached[..2], ["detach i-1", "detach i-1 force"]);
}

#[tokio::test]
async fn a_throttled_api_is_asked_again_later() {
    let world = World::new();
    let (_, mover) = world.instance("i-1");
    world.ebs.throttle(5);
    mover.bring_here(&world.volume).await.expect("in the end");
    assert_eq!(world.ebs.requests()[..6], ["describe"; 6]);
}

#[tokio::test]
async fn an_attachment_that_is_stuck_is_begun_again_under_another_name() {
    let world = World::new();
    let (_, mover) = world.instance("i-1");
    world.ebs.stick(1);
    mover.bring_here(&world.volume).await.expect("in the end");
    let requests = world.ebs.requests();
    let changes: Vec<_> = requests.iter().filter(|it| it.contains("i-1")).collect();
    assert_eq!(changes, ["attach i-1", "detach i-1 force", "attach i-1"]);
}

#[tokio::test]
async fn another_zone_is_refused_at_once_and_says_what_to_do() {
    let world = World::new();
    let (_, mover) = world.instance_in("zone-b", "i-9");
    let refused = mover.bring_here(&world.volume).await.expect_err("refused");
    assert!(matches!(refused, MoveError::OtherZone { .. }));
    let text = refused.to_string();
    assert!(text.contains("start a broker there"), "{text}");
    assert_eq!(world.ebs.requests(), ["describe"]);
}

#[tokio::test]
async fn a_volume_with_multi_attach_is_not_fenced_by_detaching() {
    let world = World::new();
    let (_, mover) = world.instance("i-1");
    world.ebs.share(&world.volume);
    let refused = mover.bring_here(&world.volume).await.expect_err("refused");
    assert!(
        refused.to_string().contains("fence=reservation"),
        "{refused}"
    );
}

#[tokio::test]
async fn an_unknown_volume_is_an_error() {
    let world = World::new();
    let (_, mover) = world.instance("i-1");
    let unknown = "vol-01234567".parse().expect("legal");
    let refused = mover.bring_here(&unknown).await.expect_err("refused");
    assert!(matches!(refused, MoveError::Refused { .. }), "{refused}");
}

#[tokio::test]
async fn whoever_dies_at_any_request_is_followed_by_the_next() {
    for requests in 0..14 {
        let world = World::new();
        let (one, to_one) = world.instance("i-1");
        to_one.bring_here(&world.volume).await.expect("it was free");
        if requests % 2 == 1 {
            world.ebs.hang(&one);
        }
        let ((_, to_two), (three, to_three)) = (world.instance("i-2"), world.instance("i-3"));
        world.ebs.die_after(Some(requests));
        let dying = to_two.bring_here(&world.volume);
        let _ = tokio::time::timeout(Duration::from_millis(200), dying).await;
        world.ebs.die_after(None);
        to_three.bring_here(&world.volume).await.expect("takes it");
        device(&three, &world.volume).await;
    }
}

#[tokio::test]
async fn a_step_takes_a_volume_only_where_it_may() {
    let world = World::new();
    let ((_, to_one), (_, to_two)) = (world.instance("i-1"), world.instance("i-2"));
    to_one.bring_here(&world.volume).await.expect("it was free");
    for _ in 0..3 {
        let step = to_two.step(&world.volume, None).await.expect("looks");
        assert_eq!(step, Step::Elsewhere);
    }
    assert_eq!(
        to_one.step(&world.volume, None).await.expect("looks"),
        Step::Here
    );
}

#[tokio::test]
async fn what_never_ends_is_given_up() {
    let world = World::new();
    let (instance, _) = world.instance("i-1");
    let pace = MovePace {
        give_up_after: Duration::from_millis(50),
        ..PACE
    };
    let seams = (SystemClock::shared(), SeededRandom::shared(1));
    let mover = VolumeMover::new(Arc::new(instance.clone()), instance.identity(), seams, pace);
    world.ebs.throttle(u32::MAX);
    let given_up = mover.bring_here(&world.volume).await.expect_err("gives up");
    assert!(
        given_up.to_string().contains("RequestLimitExceeded"),
        "{given_up}"
    );
}
