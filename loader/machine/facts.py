"""Facts of a GPU by name, queried from the driver: what an artifact may assume, and what a profile is measured from.

A name is that of ``CU_DEVICE_ATTRIBUTE_...`` in lower case, or ``name``, ``total_memory``, ``driver_version``,
``max_portable_cluster_size``, or ``max_active_clusters_N``: how many clusters of N blocks run at once. In a
process on a MIG slice the driver gives the numbers of the slice.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from precast.loader.errors import PrecastError
from precast.loader.machine.occupancy import count_clusters

if TYPE_CHECKING:
    from precast.loader.machine.driver import Driver

Answer = int | str | None
"""A fact, or None where it is unknown."""

CLUSTERS = "max_active_clusters_"
MOST_BLOCKS = 32  # of the largest cluster that anything queries
_PORTABLE = 8  # blocks of a cluster, on every GPU that has clusters

# By their numbers in the driver's interface, from 1 on. If a number has two names, the one that is not deprecated.
_NAMES = """
    max_threads_per_block max_block_dim_x max_block_dim_y max_block_dim_z max_grid_dim_x max_grid_dim_y
    max_grid_dim_z max_shared_memory_per_block total_constant_memory warp_size max_pitch max_registers_per_block
    clock_rate texture_alignment gpu_overlap multiprocessor_count kernel_exec_timeout integrated
    can_map_host_memory compute_mode maximum_texture1d_width maximum_texture2d_width maximum_texture2d_height
    maximum_texture3d_width maximum_texture3d_height maximum_texture3d_depth maximum_texture2d_layered_width
    maximum_texture2d_layered_height maximum_texture2d_layered_layers surface_alignment concurrent_kernels
    ecc_enabled pci_bus_id pci_device_id tcc_driver memory_clock_rate global_memory_bus_width l2_cache_size
    max_threads_per_multiprocessor async_engine_count unified_addressing maximum_texture1d_layered_width
    maximum_texture1d_layered_layers can_tex2d_gather maximum_texture2d_gather_width
    maximum_texture2d_gather_height maximum_texture3d_width_alternate maximum_texture3d_height_alternate
    maximum_texture3d_depth_alternate pci_domain_id texture_pitch_alignment maximum_texturecubemap_width
    maximum_texturecubemap_layered_width maximum_texturecubemap_layered_layers maximum_surface1d_width
    maximum_surface2d_width maximum_surface2d_height maximum_surface3d_width maximum_surface3d_height
    maximum_surface3d_depth maximum_surface1d_layered_width maximum_surface1d_layered_layers
    maximum_surface2d_layered_width maximum_surface2d_layered_height maximum_surface2d_layered_layers
    maximum_surfacecubemap_width maximum_surfacecubemap_layered_width maximum_surfacecubemap_layered_layers
    maximum_texture1d_linear_width maximum_texture2d_linear_width maximum_texture2d_linear_height
    maximum_texture2d_linear_pitch maximum_texture2d_mipmapped_width maximum_texture2d_mipmapped_height
    compute_capability_major compute_capability_minor maximum_texture1d_mipmapped_width stream_priorities_supported
    global_l1_cache_supported local_l1_cache_supported max_shared_memory_per_multiprocessor
    max_registers_per_multiprocessor managed_memory multi_gpu_board multi_gpu_board_group_id
    host_native_atomic_supported single_to_double_precision_perf_ratio pageable_memory_access
    concurrent_managed_access compute_preemption_supported can_use_host_pointer_for_registered_mem
    can_use_stream_mem_ops_v1 can_use_64_bit_stream_mem_ops_v1 can_use_stream_wait_value_nor_v1 cooperative_launch
    cooperative_multi_device_launch max_shared_memory_per_block_optin can_flush_remote_writes
    host_register_supported pageable_memory_access_uses_host_page_tables direct_managed_mem_access_from_host
    virtual_address_management_supported handle_type_posix_file_descriptor_supported
    handle_type_win32_handle_supported handle_type_win32_kmt_handle_supported max_blocks_per_multiprocessor
    generic_compression_supported max_persisting_l2_cache_size max_access_policy_window_size
    gpu_direct_rdma_with_cuda_vmm_supported reserved_shared_memory_per_block sparse_cuda_array_supported
    read_only_host_register_supported timeline_semaphore_interop_supported memory_pools_supported
    gpu_direct_rdma_supported gpu_direct_rdma_flush_writes_options gpu_direct_rdma_writes_ordering
    mempool_supported_handle_types cluster_launch deferred_mapping_cuda_array_supported
    can_use_64_bit_stream_mem_ops can_use_stream_wait_value_nor dma_buf_supported ipc_event_supported
    mem_sync_domain_count tensor_map_access_supported handle_type_fabric_supported unified_function_pointers
    numa_config numa_id multicast_supported mps_enabled host_numa_id d3d12_cig_supported
    mem_decompress_algorithm_mask mem_decompress_maximum_length vulkan_cig_supported gpu_pci_device_id
    gpu_pci_subsystem_id host_numa_virtual_memory_management_supported host_numa_memory_pools_supported
    host_numa_multinode_ipc_supported host_memory_pools_supported host_virtual_memory_management_supported
    host_alloc_dma_buf_supported only_partial_host_native_atomic_supported atomic_reduction_supported
    locality_domain_count max_oversized_shared_memory_per_block d3d12_cig_streams_supported dma_buf_mmap_supported
    logical_endpoint_unicast_supported logical_endpoint_multicast_supported logical_endpoint_counted_ops_supported
    logical_endpoint_unicast_access_on_owner_device_supported locality_domain_multiprocessor_count
    logical_endpoint_supported_handle_types
"""

ATTRIBUTES: Mapping[str, int] = MappingProxyType({name: number for number, name in enumerate(_NAMES.split(), 1)})
"""The number of each attribute in ``CUdevice_attribute``, by its name."""

_BY_NUMBER = {number: name for name, number in ATTRIBUTES.items()}


def attribute_name(number: int) -> str:
    """The name of an attribute; ValueError for a number that has none here.

    >>> attribute_name(16)
    'multiprocessor_count'
    """
    if number not in _BY_NUMBER:
        raise ValueError(f"{number} is not the number of a known device attribute")
    return _BY_NUMBER[number]


def fact(driver: Driver, ordinal: int, name: str) -> Answer:
    """One fact of a device, or None where the driver does not report it."""
    try:
        return _ask(driver, ordinal, name)
    except PrecastError:
        return None


def _ask(driver: Driver, ordinal: int, name: str) -> Answer:
    if name in ATTRIBUTES:
        return driver.attribute(ordinal, ATTRIBUTES[name])
    if name.startswith(CLUSTERS):
        size = cluster_size(name)
        if size == 1 and not driver.attribute(ordinal, ATTRIBUTES["cluster_launch"]):
            return driver.attribute(ordinal, ATTRIBUTES["multiprocessor_count"])  # one block an SM
        return None if size is None else count_clusters(driver, ordinal, size)
    if name == "name":
        return driver.devices[ordinal].name
    if name == "total_memory":
        return driver.memory(ordinal)
    if name == "driver_version":
        return 1000 * driver.version[0] + 10 * driver.version[1]
    if name == "max_portable_cluster_size":
        return _PORTABLE if driver.attribute(ordinal, ATTRIBUTES["cluster_launch"]) else 1
    return None


def cluster_size(name: str) -> int | None:
    """The N of ``max_active_clusters_N``; None for any other name.

    >>> cluster_size("max_active_clusters_16"), cluster_size("max_active_clusters_0"), cluster_size("warp_size")
    (16, None, None)
    """
    text = name.removeprefix(CLUSTERS)
    if text == name or not (text.isascii() and text.isdigit()) or len(text) > 2:
        return None
    return int(text) if 0 < int(text) <= MOST_BLOCKS else None
