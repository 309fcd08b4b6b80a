package backend

import "terraloom/lora/wheel"

// packaged is a wheel and what of it is wanted.
type packaged struct {
	wheel.Pin
	take string // folder inside the wheel to unpack, or the one file that is the plugin
}

// bundle is what a backend is made of.
type bundle struct {
	kind    string
	version string
	plugin  string // path of the plugin inside the bundle's folder
	size    int64  // of the plugin file
	sha256  string // of the plugin file
	wheels  []packaged
}

func (b bundle) folder() string { return b.kind + "-" + b.version }

// XLA:CPU as built for the lammps-jax project (Apache-2.0), PJRT API 0.115.
var cpuBundle = bundle{
	kind: CPU, version: "0.11.2",
	plugin: "pjrt_c_api_cpu_plugin.so",
	size:   201600336,
	sha256: "ad1309ac822b1b24d51b7f9947c7c9fa9ef5d67f390584cbc3d1fa2428fed9c2",
	wheels: []packaged{
		{wheel.Pin{Project: "lammps-jax-pjrt-cpu", Version: "0.11.2", SHA256: "1319390d948b39f69f7dade496b7c385149d9ca6097a6b62114da113216d9ad1"},
			"lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so"},
	},
}

// JAX's CUDA 13 plugin and the NVIDIA libraries that its package asks for. The plugin finds them in ../nvidia.
var cudaBundle = bundle{
	kind: CUDA, version: "0.11.2",
	plugin: "xla_cuda13/xla_cuda_plugin.so",
	size:   411465856,
	sha256: "43d3efd6fd43d8a5d9aa67176e830d81e4ad5fc19fda4ad09cdcc4aebd9f3920",
	wheels: []packaged{
		{wheel.Pin{Project: "jax-cuda13-pjrt", Version: "0.11.2", SHA256: "e5ff589d43064913bb74027682d89639c7ea48f9f81c2bae6fc75117e913f93e"},
			"jax_plugins/xla_cuda13/xla_cuda_plugin.so"},
		{wheel.Pin{Project: "nvidia-cublas", Version: "13.10.0.20", SHA256: "dcc6d63884c53d07e267ce7e6feac17b2538cebaafec5db865736c3e28e4dc84"}, "nvidia/"},
		{wheel.Pin{Project: "nvidia-cuda-cupti", Version: "13.5.25", SHA256: "9dcca41c12a734192b14e7128ae116bc9ce1b9da686e2ebf48ae7a4415f76650"}, "nvidia/"},
		{wheel.Pin{Project: "nvidia-cuda-nvcc", Version: "13.5.37", SHA256: "f5c4f7ead5d964fb4af42bbf1e6d3ec3c1e6e9d83b53749f691d387e7fcaa3a7"}, "nvidia/"},
		{wheel.Pin{Project: "nvidia-cuda-nvrtc", Version: "13.5.37", SHA256: "86b4d68058807988b7d9af5b44917a0601e9c337f35ccd657bfb3c759ff8d8bc"}, "nvidia/"},
		{wheel.Pin{Project: "nvidia-cuda-runtime", Version: "13.5.37", SHA256: "df2b79a8852f10d1fef8c848489c49eebb5754051bf870202a862831412b179d"}, "nvidia/"},
		{wheel.Pin{Project: "nvidia-cudnn-cu13", Version: "9.28.1.4", SHA256: "a54f205b1db1f2895d99f398754db1369816f0569dd459731f925635cf7b65ec"}, "nvidia/"},
		{wheel.Pin{Project: "nvidia-cufft", Version: "12.5.0.14", SHA256: "b8be26837a5abad2b5b74f3e92dd29f622a42934b355be0961a48712cbba23ad"}, "nvidia/"},
		{wheel.Pin{Project: "nvidia-cusolver", Version: "12.4.1.2", SHA256: "b3b8e02fd2f2df869369af075dc3a179d43f6f7b85e94632a7dce556697be044"}, "nvidia/"},
		{wheel.Pin{Project: "nvidia-cusparse", Version: "12.9.4.2", SHA256: "072667e58c851a318738f5527a12eb225cbf058803f2ea451c722d8cf8edddec"}, "nvidia/"},
		{wheel.Pin{Project: "nvidia-nccl-cu13", Version: "2.32.3", SHA256: "1459723080ac889d73a26edfa3e04383a7928ab31ac8f0ec43b3ea9548b04ff3"}, "nvidia/"},
		{wheel.Pin{Project: "nvidia-nvjitlink", Version: "13.5.37", SHA256: "280d7cb9649704145f074b8dbde500de04ce02d0872e066e20a83c17bcaa93eb"}, "nvidia/"},
		{wheel.Pin{Project: "nvidia-nvshmem-cu13", Version: "3.8.0", SHA256: "81a4d1f666543e6d34df6d2ff940c7da1435e34e186aab6f3c2b48861b64ef38"}, "nvidia/"},
		{wheel.Pin{Project: "nvidia-nvvm", Version: "13.5.37", SHA256: "c41bfa362e407405163f103c2229f0765f8cc2ed7d148b754dc77f228bf7e070"}, "nvidia/"},
	},
}
