# Part of hack/setup: the disk of real hosts for tests, with Debian's kernel, containerd and the kubelet.
# shellcheck shell=bash disable=SC2154 # $here and the functions are hack/setup's

real_suite=bookworm
real_mirror=http://deb.debian.org/debian
real_programs=(mmdebstrap:mmdebstrap qemu-system-x86_64:qemu-system-x86 qemu-img:qemu-utils mke2fs:e2fsprogs ipmi_sim:openipmi)
real_packages=linux-image-cloud-amd64,systemd-sysv,udev,kmod,mount,procps,iproute2,containerd,runc,containernetworking-plugins
# In seconds. The first start under emulation, beside other work, takes minutes.
real_first_start=600
real_first_start_kvm=60

# real_obstacle: prints why the hosts cannot be prepared here, if so.
real_obstacle() {
	if ! have apt-get; then
		printf 'this is not Debian'
	elif [[ $(machine) != linux-amd64 ]]; then
		printf 'their disk is for linux-amd64 only'
	elif ((EUID != 0)); then
		printf 'only root can make their disk'
	fi
}

# real_missing: likewise, what `hack/setup real` would install.
real_missing() {
	local pair
	for pair in "${real_programs[@]}"; do
		if ! PATH=$PATH:/usr/sbin have "${pair%%:*}"; then
			printf '%s is missing, which hack/setup real installs' "${pair#*:}"
			return
		fi
	done
}

want_real() { [[ -n $(real_obstacle) ]] || want_programs "${real_programs[@]}"; }

real_dir=
ensure_real() {
	local obstacle sum log
	obstacle=$(real_obstacle)
	[[ -n $obstacle ]] || obstacle=$(real_missing)
	if [[ -n $obstacle ]]; then
		say "no real hosts: $obstacle"
		return
	fi
	read_versions
	sum=$({
		printf '%s\n' "$kubernetes_version" "$real_suite" "$real_packages"
		cd "$here/real" || exit
		find setup.sh image_archive.py member rootfs -type f -print0 | sort -z | xargs -0 sha256sum
	} | sha256sum | cut -c 1-12)
	real_dir=$cache/real/$sum
	[[ ! -e $real_dir/ready ]] || return 0
	[[ -x $built_dir/kubelet ]] || build_programs kubelet
	lock_builds "$cache/real"
	[[ ! -e $real_dir/ready ]] || return 0
	rm -rf "$real_dir"
	mkdir -p "$real_dir"
	log=$cache/real/.$sum.log
	unfinished+=("$real_dir/root")
	start_job "the disk of real hosts" 150 no_count "$log" make_real
	wait_jobs "the disk of real hosts (kept in $real_dir)"
	touch "$real_dir/ready"
	rm -f "$log"
}

# make_real: fills real_dir with disk.qcow2, kernel, initrd, and the accelerator that works here.
make_real() {
	local root=$real_dir/root
	in_module "$here/real/member" go build -trimpath -ldflags '-s -w' -o "$real_dir/member" . || return
	# The initial RAM disk has only what these hosts need, because emulation unpacks it slowly.
	# shellcheck disable=SC2016 # $1 is the hook's
	nice -n 5 mmdebstrap --variant=apt --mode=root --include="$real_packages" \
		--aptopt='APT::Install-Recommends "false"' \
		--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' \
		--essential-hook='mkdir -p "$1/etc/initramfs-tools/conf.d" "$1/usr/share/initramfs-tools/modules.d"' \
		--essential-hook='printf "MODULES=list\nCOMPRESS=gzip\n" >"$1/etc/initramfs-tools/conf.d/real"' \
		--essential-hook='printf "virtio_pci\nvirtio_blk\next4\n" >"$1/usr/share/initramfs-tools/modules.d/real"' \
		"$real_suite" "$root" "$real_mirror" || return
	cp -a --no-preserve=ownership "$here/real/rootfs/." "$root/" || return
	install -m 755 "$built_dir/kubelet" "$root/usr/local/bin/kubelet" || return
	mkdir -p "$root/var/lib/rackhand" || return
	python3 "$here/real/image_archive.py" rackhand.test/member:1 "$real_dir/member" "$root/var/lib/rackhand/member.tar" || return
	systemctl --root="$root" enable containerd kubelet rackhand-configure rackhand-import rackhand-shell || return
	systemctl --root="$root" mask serial-getty@ttyS0 getty@tty1 apt-daily.timer apt-daily-upgrade.timer \
		dpkg-db-backup.timer e2scrub_all.timer fstrim.timer || return
	ln -sf multi-user.target "$root/etc/systemd/system/default.target" || return
	rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/* || return
	cp "$root"/boot/vmlinuz-* "$real_dir/kernel" && cp "$root"/boot/initrd.img-* "$real_dir/initrd" || return
	mke2fs -q -t ext4 -d "$root" "$real_dir/disk.raw" 2G || return
	qemu-img convert -O qcow2 "$real_dir/disk.raw" "$real_dir/disk.qcow2" || return
	rm -rf "$root" "$real_dir/disk.raw" "$real_dir/member" || return
	first_start
}

# first_start: starts a host once, which imports the image of its pods and switches itself off. KVM is
# used only where it is seen to work: there are systems whose /dev/kvm exists and starts no guest.
first_start() {
	if [[ -w /dev/kvm ]] && start_real kvm "$real_first_start_kvm"; then
		echo kvm >"$real_dir/accelerator"
		return
	fi
	start_real tcg,thread=multi "$real_first_start" && echo tcg,thread=multi >"$real_dir/accelerator"
}

# start_real ACCELERATOR SECONDS
start_real() {
	local console=$real_dir/first-start.log
	timeout --kill-after=5 "$2" qemu-system-x86_64 -accel "$1" -cpu max -m 576 -smp 1 \
		-nodefaults -display none -no-reboot -serial "file:$console" -kernel "$real_dir/kernel" -initrd "$real_dir/initrd" \
		-append "root=/dev/vda rw console=ttyS0 net.ifnames=0 no_timer_check panic=1 rackhand.import" \
		-drive "file=$real_dir/disk.qcow2,if=virtio,cache=unsafe" -nic user,model=virtio-net-pci,restrict=on || return
	grep -q 'the image is imported' "$console"
}
