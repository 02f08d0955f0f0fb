use futures_util::{FutureExt, poll};

use super::*;

#[test]
fn those_who_wait_are_served_in_order_and_nobody_overtakes() {
    let budget = Budget::new(100);
    let first = budget.try_take(60).expect("room");
    let mut large = budget.take(50);
    let mut small = budget.take(10);
    assert!((&mut large).now_or_never().is_none() && (&mut small).now_or_never().is_none());
    assert!(budget.try_take(1).is_none(), "others wait");
    assert_eq!((budget.wanted(), budget.first_in_line()), (10, Some(50)));
    assert_eq!((budget.free(), budget.missing(1)), (0, 10));
    drop(first);
    let large = large.now_or_never().expect("its turn");
    let small = small.now_or_never().expect("fits beside it");
    assert_eq!((large.bytes(), small.bytes(), budget.used()), (50, 10, 60));
    drop((large, small));
    assert_eq!((budget.used(), budget.peak(), budget.free()), (0, 60, 100));
}

#[test]
fn who_leaves_lets_the_next_one_in() {
    let budget = Budget::new(100);
    let _first = budget.try_take(60).expect("room");
    let large = budget.take(50);
    let small = budget.take(10);
    drop(large);
    let small = small.now_or_never().expect("let in");
    assert_eq!((small.bytes(), budget.used(), budget.wanted()), (10, 70, 0));
    assert!(!budget.has_waiters());
}

#[test]
fn a_grant_that_nobody_collects_is_given_back() {
    let budget = Budget::new(10);
    let held = budget.try_take(10).expect("room");
    let leaves = budget.take(5);
    drop(held);
    assert_eq!(budget.used(), 5);
    drop(leaves);
    assert_eq!(budget.used(), 0);
}

#[test]
fn more_capacity_lets_in_whoever_fits_now() {
    let budget = Budget::new(100);
    let _first = budget.try_take(90).expect("room");
    let second = budget.take(60);
    let mut third = budget.take(60);
    budget.set_capacity(150);
    let second = second.now_or_never().expect("fits");
    assert_eq!(second.bytes(), 60);
    assert!((&mut third).now_or_never().is_none());
    assert_eq!(budget.capacity(), 150);
}

#[test]
fn less_capacity_takes_nothing_away_and_lets_nobody_in_until_it_is_kept() {
    let budget = Budget::new(100);
    let first = budget.try_take(50).expect("room");
    let second = budget.try_take(40).expect("room");
    budget.set_capacity(30);
    assert_eq!((budget.used(), budget.free()), (90, 0));
    let mut third = budget.take(10);
    assert_eq!(budget.wanted(), 70);
    drop(first);
    assert!((&mut third).now_or_never().is_none());
    drop(second);
    assert_eq!(third.now_or_never().expect("fits").bytes(), 10);
}

#[test]
fn nobody_waits_for_more_than_there_will_ever_be() {
    let budget = Budget::new(100);
    let held = budget.try_take(60).expect("room");
    let large = budget.take(80);
    let small = budget.take(20);
    budget.set_capacity(70);
    assert_eq!(large.now_or_never().expect("at its turn").bytes(), 80);
    assert!(small.now_or_never().is_none());
    // What never fitted waits until there is nothing else.
    let mut never = budget.take(1_000);
    assert!((&mut never).now_or_never().is_none());
    drop(held);
    assert_eq!(never.now_or_never().expect("alone").bytes(), 1_000);
}

#[tokio::test]
async fn one_charge_may_overdraw_so_that_growing_ones_cannot_block_each_other() {
    let budget = Budget::new(100);
    let mut a = budget.try_take(50).expect("room");
    let mut b = budget.try_take(50).expect("room");
    let mut starts = budget.take(1);
    assert!(!a.try_grow(10));
    a.grow(10).await;
    assert!(a.try_grow(1_000), "the one that overdraws reaches its end");
    let mut waits = Box::pin(b.grow(10));
    assert!(poll!(&mut waits).is_pending());
    assert!(poll!(&mut starts).is_pending());
    drop(a);
    waits.await;
    assert_eq!(starts.await.bytes(), 1);
    drop(b);
    assert_eq!(budget.used(), 0);
    // The overdraft has ended with the charge: the next one may again.
    let mut c = budget.try_take(100).expect("room");
    c.grow(10).await;
    assert_eq!(budget.used(), 110);
}

#[test]
fn a_charge_is_set_without_waiting() {
    let budget = Budget::new(10);
    let mut charge = budget.try_take(10).expect("room");
    charge.set(500);
    assert_eq!(budget.used(), 500);
    let mut waits = budget.take(4);
    assert!((&mut waits).now_or_never().is_none());
    charge.set(6);
    assert_eq!(waits.now_or_never().expect("fits").bytes(), 4);
    drop(charge);
    assert_eq!(budget.used(), 0);
}

#[test]
fn absorbed_charges_are_given_back_once() {
    let budget = Budget::new(100);
    let mut block = budget.take_anyway(0);
    block.absorb(budget.try_take(10).expect("room"));
    block.absorb(budget.take_anyway(500));
    assert_eq!((block.bytes(), budget.used()), (510, 510));
    drop(block);
    assert_eq!(budget.used(), 0);
}
