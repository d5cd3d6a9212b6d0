set -eu
# What nvidia-docker2 was: a daemon.json as a conffile, and a wrapper.
folder=$(mktemp -d)
mkdir -p "$folder/DEBIAN" "$folder/etc/docker" "$folder/usr/bin"
cat > "$folder/DEBIAN/control" <<C
Package: nvidia-docker2
Version: 2.13.0-1
Architecture: all
Maintainer: nobody <nobody@example.invalid>
Description: stand-in of the test lab
C
echo /etc/docker/daemon.json > "$folder/DEBIAN/conffiles"
printf '{\n    "runtimes": {\n        "nvidia": {\n            "path": "nvidia-container-runtime",\n            "runtimeArgs": []\n        }\n    }\n}\n' \
    > "$folder/etc/docker/daemon.json"
printf '#!/bin/sh\nexec docker "$@"\n' > "$folder/usr/bin/nvidia-docker"
chmod 755 "$folder/usr/bin/nvidia-docker"
dpkg-deb -b "$folder" /root/nvidia-docker2.deb
dpkg -i /root/nvidia-docker2.deb
# And a person's change of it.
sed -i '1a\    "log-driver": "json-file",' /etc/docker/daemon.json
