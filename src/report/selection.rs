//! The selection of the drawings on a page. Further drawings are only in `figures/`.

/// The most drawings of a page.
pub(super) const MOST: usize = 18;

/// How many drawings of each figure are on a page, given their numbers. The first of each figure come first, then
/// the second ones, and so on, until the page is full. Figures that come first are the more informative ones.
pub(super) fn on_page(drawings: &[usize]) -> Vec<usize> {
    let mut shown = vec![0; drawings.len()];
    let mut free = MOST;
    for round in 1..=MOST {
        for (shown, all) in shown.iter_mut().zip(drawings).filter(|(_, all)| **all >= round) {
            if free == 0 {
                break;
            }
            *shown = round.min(*all);
            free -= 1;
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn first_drawings_of_all_figures_precede_second_ones() {
        assert_eq!(on_page(&[1, 0, 2]), [1, 0, 2]);
        assert_eq!(on_page(&[20]), [18]);
        assert_eq!(on_page(&[3, 3, 1, 3, 1, 1, 1, 1, 4, 1]), [3, 3, 1, 3, 1, 1, 1, 1, 3, 1]);
    }

    proptest! {
        #[test]
        fn a_page_is_filled_and_no_more(drawings in prop::collection::vec(0..9usize, 0..14)) {
            let shown = on_page(&drawings);
            prop_assert!(shown.iter().zip(&drawings).all(|(shown, all)| shown <= all));
            let all: usize = drawings.iter().sum();
            prop_assert_eq!(shown.iter().sum::<usize>(), all.min(MOST));
        }
    }
}
