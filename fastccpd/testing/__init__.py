"""What another package tests its method by: the conformance suite, what every fusion method keeps to, and scores. ::

    from fastccpd.testing import CHECKS, check_method

    check_method(MyMethod)                                    # all of them; AssertionError says what is wrong

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_my_method(check):
        check(MyMethod(rank=3))

`score_method` makes rows of a method's scores, also of one that is a plain function; docs/rows.md says what they hold.

A check takes a method's name, its class or an object. Of the first two it makes an object that fits the scene
(`small_instance`); an object is taken as it is. Nothing here measures time.
"""

from collections.abc import Callable

from .cases import small_case, small_instance
from .inputs import (
    check_float32_is_kept,
    check_inputs_are_unmodified,
    check_memmap_inputs,
    check_readonly_inputs,
)
from .objects import (
    check_copies_are_equal,
    check_default_construction,
    check_docstring_cites_its_paper,
    check_memory_estimate,
    check_options_are_documented,
    check_options_may_be_numpy_scalars,
    check_options_round_trip_through_json,
    check_unknown_option_is_refused,
)
from .repeatability import (
    check_concurrent_calls,
    check_given_start,
    check_no_hidden_state,
    check_same_seed_gives_same_bytes,
    check_seed_matters_only_with_random_starts,
    check_settings_are_left_alone,
    check_several_starts,
)
from .results import (
    check_image,
    check_nonnegative_where_promised,
    check_result_fields,
    check_trace,
)
from .scenes import (
    check_a_masked_band_costs_no_more_than_a_removed_one,
    check_clean_images_are_explained,
    check_flat_and_dark_scenes,
    check_order_of_msi_bands_does_not_matter,
    check_rank_one,
    check_rows_and_columns_are_alike,
    check_size_one_axes,
    check_units_do_not_matter,
    check_units_far_from_one,
    check_weights_far_from_one,
)
from .scoring import score_method
from .simulating import scene_names, simulated
from .stopping import (
    check_callback_can_stop,
    check_callback_sees_rising_iterations,
    check_ctrl_c_passes_wherever_it_comes,
    check_error_in_callback_passes,
    check_one_iteration,
    check_stop_in_every_stage,
    check_time_limit,
)

__all__ = ["CHECKS", "check_method", "scene_names", "score_method", "simulated", "small_case", "small_instance"]

#: All checks, in the order in which they are run: the object, results, inputs, repeatability, stopping, scenes.
CHECKS: list[Callable] = [
    check_default_construction,
    check_options_round_trip_through_json,
    check_options_may_be_numpy_scalars,
    check_unknown_option_is_refused,
    check_copies_are_equal,
    check_docstring_cites_its_paper,
    check_options_are_documented,
    check_memory_estimate,
    check_result_fields,
    check_image,
    check_nonnegative_where_promised,
    check_trace,
    check_inputs_are_unmodified,
    check_readonly_inputs,
    check_memmap_inputs,
    check_float32_is_kept,
    check_same_seed_gives_same_bytes,
    check_no_hidden_state,
    check_seed_matters_only_with_random_starts,
    check_several_starts,
    check_given_start,
    check_settings_are_left_alone,
    check_concurrent_calls,
    check_one_iteration,
    check_callback_sees_rising_iterations,
    check_callback_can_stop,
    check_stop_in_every_stage,
    check_error_in_callback_passes,
    check_ctrl_c_passes_wherever_it_comes,
    check_time_limit,
    check_size_one_axes,
    check_rank_one,
    check_flat_and_dark_scenes,
    check_units_do_not_matter,
    check_units_far_from_one,
    check_weights_far_from_one,
    check_a_masked_band_costs_no_more_than_a_removed_one,
    check_order_of_msi_bands_does_not_matter,
    check_rows_and_columns_are_alike,
    check_clean_images_are_explained,
]


def check_method(method, *, residual=0.05):
    """Run every check on `method`; AssertionError names the first that fails and says what is wrong.

    Parameters
    ----------
    method : str, Method class or Method
        An object is checked with its own options, which must suit a scene of 32×48×16 and three materials.
    residual : float
        The largest relative residual at which the images of a clean scene count as explained.

    Raises
    ------
    AssertionError
        At the first check that fails.

    Examples
    --------
    >>> from fastccpd.testing import check_method
    >>> check_method("uc-ccpd-nls")
    """
    for check in CHECKS:
        check(method, residual=residual) if check is check_clean_images_are_explained else check(method)
