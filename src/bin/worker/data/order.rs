//! The order of images: endless epochs, each with a new permutation. Images at the end that do not fill a batch are
//! dropped.

use super::random::Random;

/// The order of a data set's images, epoch by epoch. Keeps the permutation of the epoch that was used last.
#[derive(Clone, Debug)]
pub(super) struct Order {
    seed: u64,
    images: u32,
    batch: u32,
    epoch: Option<u64>,
    permutation: Vec<u32>,
}

/// The images of one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slots<'a> {
    /// The epoch the batch belongs to.
    pub epoch: u64,
    /// The position in the epoch where the batch begins.
    pub start: usize,
    /// The indices of the images of the whole epoch.
    pub permutation: &'a [u32],
}

impl Order {
    /// The order of `images` images in batches of `batch`; `batch` is neither 0 nor greater than `images`.
    pub(super) fn new(seed: u64, images: u32, batch: u32) -> Self {
        debug_assert!(0 < batch && batch <= images);
        Order { seed, images, batch, epoch: None, permutation: Vec::new() }
    }

    /// The images of batch number `number`, counted from 0 over all epochs.
    pub(super) fn batch(&mut self, number: u64) -> Slots<'_> {
        let batches = u64::from(self.images / self.batch);
        let epoch = number / batches;
        if self.epoch != Some(epoch) {
            self.permutation.clear();
            self.permutation.extend(0..self.images);
            shuffle(&mut self.permutation, &mut Random::of(&[self.seed, epoch]));
            self.epoch = Some(epoch);
        }
        let start = (number % batches) as usize * self.batch as usize;
        Slots { epoch, start, permutation: &self.permutation }
    }
}

/// The shuffle of Fisher and Yates.
fn shuffle(items: &mut [u32], random: &mut Random) {
    for end in (2..=items.len()).rev() {
        items.swap(end - 1, random.below(end as u64) as usize);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn indices(order: &mut Order, number: u64) -> Vec<u32> {
        let batch = order.batch as usize;
        let slots = order.batch(number);
        slots.permutation[slots.start..slots.start + batch].to_vec()
    }

    proptest::proptest! {
        #[test]
        fn an_epoch_shows_no_image_twice_and_drops_less_than_a_batch(images in 1u32..200, batch in 1u32..50, seed: u64) {
            proptest::prop_assume!(batch <= images);
            let mut order = Order::new(seed, images, batch);
            let batches = u64::from(images / batch);
            for epoch in 0..3 {
                let seen: BTreeSet<u32> =
                    (0..batches).flat_map(|number| indices(&mut order, epoch * batches + number)).collect();
                proptest::prop_assert_eq!(seen.len(), (images / batch * batch) as usize);
                proptest::prop_assert!(seen.iter().all(|&image| image < images));
            }
        }
    }

    #[test]
    fn the_order_depends_only_on_the_seed() {
        let mut forwards = Order::new(3, 10, 3);
        let mut backwards = Order::new(3, 10, 3);
        let there: Vec<_> = (0..9).map(|number| indices(&mut forwards, number)).collect();
        let mut back: Vec<_> = (0..9).rev().map(|number| indices(&mut backwards, number)).collect();
        back.reverse();
        assert_eq!(there, back);
        assert_ne!(there[0..3], there[3..6], "each epoch is shuffled anew");
        assert_ne!(indices(&mut Order::new(4, 10, 3), 0), there[0], "another seed, another order");
    }
}
