set -eu
# A site's own configuration, by host; run where the files are.
mkdir -p /etc/docker /etc/cdi /etc/containerd/site.d /etc/containers/containers.conf.d /root/before
cp lab.conf /etc/containers/containers.conf.d/lab.conf
daemon() { cp daemon.json /etc/docker/site.json; cp daemon.json /root/before/daemon.json; cp vendor.yaml /etc/cdi/vendor.yaml; }
root_file() { cp "$1" /etc/containerd/config.toml; cp "$1" /root/before/config.toml; }
case $(hostname) in
    d13)
        daemon; root_file containerd.toml
        cp daemon.json /etc/docker/daemon.json
        engines="containerd docker" images="podman docker" ;;
    d12)
        daemon; root_file containerd.toml
        ln -s site.json /etc/docker/daemon.json
        # What older guides leave behind.
        cp nvidia-container-toolkit.list nvidia-docker.sources /etc/apt/sources.list.d/
        cp stale-nvidia.yaml /etc/cdi/nvidia.yaml
        engines="containerd docker" images="podman docker" ;;
    c1)
        root_file containerd-1.toml
        sh nvidia-docker2.sh
        engines="containerd docker" images="podman docker" ;;
    c2)
        root_file containerd-3.toml
        cp site.toml /etc/containerd/site.d/10-site.toml
        engines=containerd images=containerd ;;
    rl)
        sh rootless.sh rootless.service
        engines=containerd images=alice ;;
esac
# shellcheck disable=SC2086 # lists
{ systemctl restart $engines; sh image.sh $images; }
